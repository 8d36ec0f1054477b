/* A collective library with the functions that only RCCL has. Each answers a number of its
 * own, so that a call that went astray shows. It also passes for a GPU driver. */
#include <stddef.h>
#include <string.h>

typedef struct { char internal[128]; } unique_id;
static int communicator;

int ncclGetUniqueId(unique_id *id) { memset(id, 0, sizeof *id); return 0; }
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank)
{
    (void)nranks; (void)id; (void)rank;
    *comm = &communicator;
    return 0;
}
int ncclAllReduceWithBias(const void *a, void *b, size_t n, int t, int op, void *c, void *s, const void *bias)
{
    return (a && b && n == 5 && t == 7 && op == 0 && c == &communicator && !s && bias) ? 0 : 21;
}
int ncclAllToAll(const void *a, void *b, size_t n, int t, void *c, void *s)
{
    return (a && b && n == 5 && t == 7 && c == &communicator && !s) ? 0 : 22;
}
int ncclAlltoAllv(const void *a, const size_t *ac, const size_t *ad, void *b, const size_t *bc,
                  const size_t *bd, int t, void *c, void *s)
{
    return (a && *ac == 1 && *ad == 2 && b && *bc == 3 && *bd == 4 && t == 7 && c == &communicator && !s) ? 0 : 23;
}
int ncclAllToAllv(const void *a, const size_t *ac, const size_t *ad, void *b, const size_t *bc,
                  const size_t *bd, int t, void *c, void *s)
{
    return ncclAlltoAllv(a, ac, ad, b, bc, bd, t, c, s);
}

int hipInit(unsigned flags) { (void)flags; return 0; }
int hipGetDevice(int *device) { *device = 0; return 0; }
int hipStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
