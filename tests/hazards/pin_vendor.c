/* A collective library that notices an abort in the middle of a query, and whose query
 * takes PIN_QUERY_MS. It also passes for a GPU driver. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique_id;
static int parent, child;
atomic_int pinQueryRunning, pinAbortedInQuery, pinAborted;

int ncclGetVersion(int *version) { *version = 22809; return 0; }
int ncclGetUniqueId(unique_id *id) { memset(id, 0, sizeof *id); return 0; }
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank)
{
    (void)nranks; (void)id; (void)rank;
    *comm = &parent;
    return 0;
}
int ncclCommSplit(void *comm, int colour, int key, void **out, void *config)
{
    (void)comm; (void)colour; (void)key; (void)config;
    *out = &child;
    return 0;
}
int ncclCommCount(void *comm, int *count)
{
    (void)comm;
    atomic_store(&pinQueryRunning, 1);
    usleep(1000 * atoi(getenv("PIN_QUERY_MS")));
    atomic_store(&pinQueryRunning, 0);
    *count = 1;
    return 0;
}
int ncclCommUserRank(void *comm, int *rank) { (void)comm; *rank = 0; return 0; }
int ncclCommAbort(void *comm)
{
    (void)comm;
    if (atomic_load(&pinQueryRunning))
        atomic_store(&pinAbortedInQuery, 1);
    atomic_store(&pinAborted, 1);
    return 0;
}

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
