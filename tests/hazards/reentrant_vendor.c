/* A collective library that calls its own exports, as NCCL does (Broadcast from Bcast,
 * GetUniqueId from InitAll): through the linker, and so through whoever stands in front.
 * It also passes for a GPU driver. */
#include <stddef.h>
#include <string.h>

typedef struct { char internal[128]; } unique_id;
static int communicators[2];

__attribute__((weak)) int ncclGetUniqueId(unique_id *id) { memset(id, 0, sizeof *id); return 0; }
__attribute__((weak)) int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank)
{
    (void)nranks; (void)id;
    *comm = &communicators[rank];
    return 0;
}
__attribute__((weak)) int ncclCommInitAll(void **comms, int count, const int *devices)
{
    unique_id id;
    (void)devices;
    int failed = ncclGetUniqueId(&id);
    for (int rank = 0; rank < count; rank++)
        failed |= ncclCommInitRank(&comms[rank], count, id, rank);
    return failed;
}
__attribute__((weak)) int ncclAllReduce(const void *a, void *b, size_t n, int t, int op, void *c, void *s)
{
    (void)a; (void)b; (void)n; (void)t; (void)op; (void)c; (void)s;
    return 0;
}
__attribute__((weak)) int ncclGroupStart(void) { return 0; }
__attribute__((weak)) int ncclGroupEnd(void) { return 0; }
__attribute__((weak)) int ncclAllReduceConfig(const void *a, void *b, size_t n, int t, int op, void *c, void *s,
                                              const void *config)
{
    (void)config;
    return ncclGroupStart() | ncclAllReduce(a, b, n, t, op, c, s) | ncclGroupEnd();
}

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
