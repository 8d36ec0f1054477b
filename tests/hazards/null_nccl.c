/* A collective library whose calls do nothing, so that what a call costs with the
 * interposer and without it differs by the interposer alone. It also passes for a
 * GPU driver (unless NO_GPU is defined), so that the interposer does not stay inert. */
#include <stddef.h>
#include <string.h>

typedef struct { char internal[128]; } unique_id;
static char communicators[128][64];

#ifndef VERSION
#define VERSION 22809
#endif

/* With WAITS defined: the function that the environment names in WAITS_IN never comes back, once there was a broadcast. */
#ifdef WAITS
#include <stdlib.h>
#include <unistd.h>
static int was_broadcast;
static void wait_in(const char *function)
{
    const char *where = getenv("WAITS_IN");
    while (was_broadcast && where && !strcmp(where, function))
        pause();
}
#else
#define wait_in(function) ((void)0)
#endif

int ncclGetVersion(int *version) { *version = VERSION; return 0; }
int ncclGetUniqueId(unique_id *id) { memset(id, 0, sizeof *id); return 0; }
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank)
{
    static int made;
    (void)nranks; (void)id; (void)rank;
    *comm = communicators[made++ % 128];
    return 0;
}
int ncclCommDestroy(void *comm) { (void)comm; wait_in("ncclCommDestroy"); return 0; }
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { wait_in("ncclGroupEnd"); return 0; }
int ncclGroupSimulateEnd(void *info) { (void)info; return 0; }
int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)
{
    (void)send; (void)recv; (void)count; (void)type; (void)op; (void)comm; (void)stream;
    wait_in("ncclAllReduce");
    return 0;
}
int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream)
{
    (void)send; (void)recv; (void)count; (void)type; (void)root; (void)comm; (void)stream;
#ifdef WAITS
    was_broadcast = 1;
#endif
    return 0;
}
int ncclSend(const void *send, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)send; (void)count; (void)type; (void)peer; (void)comm; (void)stream;
    wait_in("ncclSend");
    return 0;
}

#ifndef NO_GPU
int cuInit(unsigned flags) { (void)flags; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
#endif
