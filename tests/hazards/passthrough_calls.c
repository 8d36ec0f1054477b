/* Makes N calls of one kind and prints the nanoseconds per call.
 *
 *   passthrough_calls all_reduce|broadcast|send|group|empty_group|mixed|steps|look_up|look_up_other N [learnt|seccomp|count]
 *
 * look_up: asks NCCL's handle for ncclAllReduce by dlsym; look_up_other: the program's for malloc.
 * mixed:   each of the N is 24 calls, of as many sizes.
 * steps:   each of the N is a training step: 24 calls of several sizes, and then a pause.
 *          Many of them come before those that are measured, so that whoever learns steps knows this one.
 * learnt:  many calls come first of the other kinds, too.
 * seccomp: four threads make the calls at once under a seccomp filter where any system call but
 *          write and exit ends the process: a lock that one had to wait for, say. (Not the strict
 *          mode, which also takes the time stamp counter away.)
 * count:   counts allocations and mutex operations during the calls, and prints them.
 *
 * `measured` is the function that callgrind collects in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique_id;
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);

static volatile int counting;
static volatile long allocations, locks;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { allocations += counting; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { allocations += counting; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { allocations += counting; return __libc_realloc(p, n); }

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks += counting;
    return real(mutex);
}

static void *comm, *stream;
static float host_buffer[64], *buffer = host_buffer;

#define CALLS_OF_STEP 24
#define STEPS_TO_LEARN 150
#define CALLS_TO_LEARN 4000

static int steps(long n)
{
    const struct timespec pause = {0, 2000000};
    int failed = 0;
    for (long i = 0; i < n; i++) {
        for (int call = 0; call < CALLS_OF_STEP; call++)
            failed |= ncclAllReduce(buffer, buffer, 64 >> call % 5, 7, 0, comm, stream);
        nanosleep(&pause, NULL);
    }
    return failed;
}

static int mixed(long n)
{
    int failed = 0;
    for (long i = 0; i < n; i++)
        for (int call = 0; call < CALLS_OF_STEP; call++)
            failed |= ncclAllReduce(buffer, buffer, 1 + call * 2, 7, 0, comm, stream);
    return failed;
}

static int look_up(long n, void *handle, const char *name)
{
    int failed = 0;
    for (long i = 0; i < n; i++)
        failed |= !dlsym(handle, name);
    return failed;
}

__attribute__((noinline)) static int make(const char *kind, long n)
{
    int failed = 0;
    if (!strcmp(kind, "mixed"))
        return mixed(n);
    if (!strcmp(kind, "steps"))
        return steps(n);
    if (!strcmp(kind, "look_up"))
        return look_up(n, dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD), "ncclAllReduce");
    if (!strcmp(kind, "look_up_other"))
        return look_up(n, RTLD_DEFAULT, "malloc");
    if (!strcmp(kind, "all_reduce"))
        for (long i = 0; i < n; i++)
            failed |= ncclAllReduce(buffer, buffer, 64, 7, 0, comm, stream);
    else if (!strcmp(kind, "send"))
        for (long i = 0; i < n; i++)
            failed |= ncclSend(buffer, 64, 7, 0, comm, stream);
    else if (!strcmp(kind, "broadcast"))
        for (long i = 0; i < n; i++)
            failed |= ncclBroadcast(buffer, buffer, 64, 7, 0, comm, stream);
    else if (!strcmp(kind, "empty_group"))
        for (long i = 0; i < n; i++)
            failed |= ncclGroupStart() | ncclGroupEnd();
    else
        for (long i = 0; i < n; i++) {
            failed |= ncclGroupStart();
            failed |= ncclAllReduce(buffer, buffer, 64, 7, 0, comm, stream);
            failed |= ncclGroupEnd();
        }
    return failed;
}

__attribute__((noinline)) int measured(const char *kind, long n) { return make(kind, n); }

static long first(const char *kind, const char *how)
{
    if (!strcmp(kind, "steps"))
        return STEPS_TO_LEARN;
    if (strcmp(how, "learnt"))
        return 3;
    return !strcmp(kind, "mixed") ? CALLS_TO_LEARN / CALLS_OF_STEP : CALLS_TO_LEARN;
}

static int confine(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

struct share { const char *kind; long n; int failed; };

static void *confined_share(void *argument)
{
    struct share *share = argument;
    make(share->kind, 3); /* this thread's first uses */
    if (confine())
        return NULL;
    share->failed = measured(share->kind, share->n);
    syscall(SYS_exit, 0);
    return NULL;
}

static int confined(const char *kind, long n)
{
    pthread_t threads[4];
    struct share shares[4];
    int failed = 0;
    for (int i = 0; i < 4; i++) {
        shares[i] = (struct share){kind, n, 1};
        pthread_create(&threads[i], NULL, confined_share, &shares[i]);
    }
    for (int i = 0; i < 4; i++)
        failed |= pthread_join(threads[i], NULL) | shares[i].failed;
    return failed;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argv[1], *how = argc > 3 ? argv[3] : "";
    long n = atol(argv[2]);
    unique_id id;
    /* A vendor that touches the data needs it on the device. */
    int (*device_alloc)(float **, size_t) = (int (*)(float **, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
    if (device_alloc && device_alloc(&buffer, sizeof host_buffer))
        return 1;
    /* One that only passes it on sees a stream, as those of most programs are. */
    if (!device_alloc)
        stream = &stream;
    if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0))
        return 1;
    if (make(kind, first(kind, how))) /* first uses bind symbols and read settings */
        return 1;
    counting = !strcmp(how, "count");
    if (!strcmp(how, "seccomp"))
        return confined(kind, n);
    double start = now();
    int failed = measured(kind, n);
    double end = now();
    counting = 0;
    printf("%s ns_per_call=%.1f allocations=%ld locks=%ld\n", kind, (end - start) / n, allocations, locks);
    return failed || ncclCommDestroy(comm);
}
