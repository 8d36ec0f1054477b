/* Things that programs do and that work without the interposer.
 *
 *   odd_host slot                    a communicator's slot is gone before the group ends
 *   odd_host simulate                a simulated end without a place for the estimate
 *   odd_host many                    one group over more communicators than can be kept in mind
 *   odd_host deaf                    nobody reads stderr any more
 *   odd_host stuffed                 stderr is a pipe that is full, and nobody empties it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique_id;
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);

static float data[4];

static void show_index(const char *what, void *comm)
{
    unsigned long long reserved = 0, committed = 0;
    int (*index)(void *, unsigned long long *, unsigned long long *);
    *(void **)&index = dlsym(RTLD_DEFAULT, "airampCallIndex");
    if (!index)
        return;
    if (index(comm, &reserved, &committed))
        printf("%s: not counted\n", what);
    else
        printf("%s: %llu/%llu\n", what, reserved, committed);
}

static int slot(void)
{
    unique_id id;
    void **place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ncclGetUniqueId(&id);
    ncclGroupStart();
    ncclCommInitRank(place, 1, id, 0);
    void *comm = *place;
    munmap(place, 4096);
    int result = ncclGroupEnd();
    ncclAllReduce(data, data, 4, 7, 0, comm, NULL);
    show_index("slot", comm);
    return result;
}

static int simulate(void)
{
    unique_id id;
    void *comm;
    char estimate[32];
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 1, id, 0);
    ncclGroupStart();
    ncclAllReduce(data, data, 4, 7, 0, comm, NULL);
    ncclGroupSimulateEnd(NULL);
    show_index("launched", comm);
    ncclGroupStart();
    ncclAllReduce(data, data, 4, 7, 0, comm, NULL);
    ncclGroupSimulateEnd(estimate);
    show_index("simulated", comm);
    return 0;
}

static int many(void)
{
    unique_id id;
    void *comms[80];
    ncclGetUniqueId(&id);
    for (int i = 0; i < 80; i++)
        ncclCommInitRank(&comms[i], 1, id, 0);
    for (int round = 0; round < 2; round++) {
        ncclGroupStart();
        for (int i = 0; i < 80; i++)
            ncclAllReduce(data, data, 4, 7, 0, comms[i], NULL);
        ncclGroupEnd();
    }
    ncclAllReduce(data, data, 4, 7, 0, comms[79], NULL);
    show_index("first", comms[0]);
    show_index("last", comms[79]);
    return 0;
}

static int deaf(void)
{
    int ends[2];
    unique_id id;
    signal(SIGPIPE, SIG_DFL);
    if (pipe(ends) || dup2(ends[1], 2) < 0)
        return 3;
    close(ends[0]);
    close(ends[1]);
    printf("id %d\n", ncclGetUniqueId(&id));
    return 0;
}

static int stuffed(void)
{
    int ends[2];
    unique_id id;
    char page[4096] = {0};
    if (pipe(ends) || dup2(ends[1], 2) < 0)
        return 3;
    fcntl(2, F_SETFL, O_NONBLOCK);
    while (write(2, page, sizeof page) > 0)
        ;
    while (write(2, page, 1) > 0)
        ;
    fcntl(2, F_SETFL, 0);
    printf("id %d\n", ncclGetUniqueId(&id));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int result = 2;
    if (!strcmp(mode, "slot")) result = slot();
    if (!strcmp(mode, "simulate")) result = simulate();
    if (!strcmp(mode, "many")) result = many();
    if (!strcmp(mode, "deaf")) result = deaf();
    if (!strcmp(mode, "stuffed")) result = stuffed();
    printf("result %d\n", result);
    return result;
}
