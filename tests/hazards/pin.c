/* One thread splits a communicator, upon which the interposer asks the vendor about the new
 * one; another aborts the new one while it does. Prints what the vendor noticed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique_id;
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclCommSplit(void *comm, int colour, int key, void **out, void *config);
int ncclCommAbort(void *comm);

static void *parent;
static void *_Atomic child;

static void *split(void *unused)
{
    (void)unused;
    ncclCommSplit(parent, 0, 0, (void **)&child, NULL);
    return NULL;
}

int main(void)
{
    unique_id id;
    pthread_t splitter;
    atomic_int *running = dlsym(RTLD_DEFAULT, "pinQueryRunning");
    atomic_int *in_query = dlsym(RTLD_DEFAULT, "pinAbortedInQuery");
    atomic_int *aborted = dlsym(RTLD_DEFAULT, "pinAborted");
    if (ncclGetUniqueId(&id) || ncclCommInitRank(&parent, 1, id, 0))
        return 1;
    pthread_create(&splitter, NULL, split, NULL);
    for (int i = 0; i < 5000 && !atomic_load(running); i++)
        usleep(1000);
    int queried = atomic_load(running);
    int result = ncclCommAbort(child);
    printf("queried=%d result=%d aborted=%d in_query=%d\n", queried, result, atomic_load(aborted),
           atomic_load(in_query));
    pthread_join(splitter, NULL);
    return 0;
}
