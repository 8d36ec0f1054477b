/* Two ranks (or RANKS) in one process make N compressed AllReduces each, in groups of one thread (each captured into a
 * graph of its own, which is thrown away, or not) or in a thread per rank, and print how many allocations and mutex
 * operations the library made in these calls.
 *
 *   compressed_calls group|captured|threads N
 *
 * `in_groups` is the function that callgrind collects in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ncclCommInitAll(void **comms, int count, const int *devices);
int ncclCommDestroy(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int cudaSetDevice(int device);
int cudaMalloc(void **at, size_t bytes);
int cudaDeviceSynchronize(void);
int cudaStreamCreate(void **stream);
int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cudaGraphDestroy(void *graph);

#ifndef RANKS
#define RANKS 2
#endif

enum { COUNT = 8192, FLOAT = 7, SUM = 0 };

static volatile int counting;
static __thread int calling; /* not the library's own thread */
static long allocations, locks;
static char *from, *to;

/* Whether a call comes from the library. */
static void count(long *counter, void *caller)
{
    if (counting && calling && (char *)caller >= from && (char *)caller < to)
        __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { count(&allocations, __builtin_return_address(0)); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { count(&allocations, __builtin_return_address(0)); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { count(&allocations, __builtin_return_address(0)); return __libc_realloc(p, n); }

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    count(&locks, __builtin_return_address(0));
    return real(mutex);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "libairamp_accel"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            from = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            to = from + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static void *comms[RANKS], *buffers[RANKS], *streams[RANKS];
static long calls;

static int call(int rank)
{
    return ncclAllReduce(buffers[rank], buffers[rank], COUNT, FLOAT, SUM, comms[rank], streams[rank]);
}

static int capture(int is_end)
{
    int failed = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        void *graph = NULL;
        failed |= cudaSetDevice(rank);
        failed |= is_end ? cudaStreamEndCapture(streams[rank], &graph) : cudaStreamBeginCapture(streams[rank], 1);
        failed |= is_end && cudaGraphDestroy(graph);
    }
    return failed;
}

__attribute__((noinline)) static int in_groups(void)
{
    int failed = 0;
    calling = 1;
    for (long i = 0; i < calls; i++) {
        failed |= streams[0] && capture(0);
        failed |= ncclGroupStart();
        for (int rank = 0; rank < RANKS; rank++)
            failed |= call(rank);
        failed |= ncclGroupEnd();
        failed |= streams[0] && capture(1);
    }
    return failed;
}

static void *one_rank(void *rank)
{
    long failed = cudaSetDevice((int)(long)rank);
    calling = 1;
    for (long i = 0; i < calls; i++)
        failed |= call((int)(long)rank);
    return (void *)failed;
}

static int in_threads(void)
{
    pthread_t threads[RANKS];
    void *failed = NULL, *any = NULL;
    for (long rank = 0; rank < RANKS; rank++)
        pthread_create(&threads[rank], NULL, one_rank, (void *)rank);
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(threads[rank], &failed);
        any = failed ? failed : any;
    }
    return any != NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int (*run)(void) = strcmp(argv[1], "threads") ? in_groups : in_threads;
    if (ncclCommInitAll(comms, RANKS, NULL))
        return 1;
    for (int rank = 0; rank < RANKS; rank++)
        if (cudaSetDevice(rank) || cudaMalloc(&buffers[rank], COUNT * sizeof(float))
            || (!strcmp(argv[1], "captured") && cudaStreamCreate(&streams[rank])))
            return 1;
    dl_iterate_phdr(find_library, NULL);
    calls = 3; /* first uses */
    int failed = run();
    calls = atol(argv[2]);
    counting = 1;
    failed |= run();
    counting = 0;
    for (int rank = 0; rank < RANKS; rank++)
        failed |= cudaSetDevice(rank) | cudaDeviceSynchronize();
    unsigned long long compressed = 0;
    int (*ask)(void *, unsigned long long *) = (int (*)(void *, unsigned long long *))dlsym(RTLD_DEFAULT, "airampCompressedCalls");
    if (ask)
        ask(comms[0], &compressed);
    printf("%s found=%d compressed=%llu allocations=%ld locks=%ld\n", argv[1], from != NULL, compressed, allocations, locks);
    for (int rank = 0; rank < RANKS; rank++)
        failed |= ncclCommDestroy(comms[rank]);
    return failed;
}
