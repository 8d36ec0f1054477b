/* Calls every function that only RCCL has, under its plain and, where the interposer offers
 * it, its profiling name, and prints the return codes. */
#include <stddef.h>
#include <stdio.h>

typedef struct { char internal[128]; } unique_id;
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclAllReduceWithBias(const void *, void *, size_t, int, int, void *, void *, const void *);
int ncclAllToAll(const void *, void *, size_t, int, void *, void *);
int ncclAlltoAllv(const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *, int, void *, void *);
int ncclAllToAllv(const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *, int, void *, void *);

int main(void)
{
    static float data[8];
    size_t one = 1, two = 2, three = 3, four = 4;
    unique_id id;
    void *comm = NULL;
    printf("id %d\n", ncclGetUniqueId(&id));
    printf("init %d\n", ncclCommInitRank(&comm, 1, id, 0));
    printf("with bias %d\n", ncclAllReduceWithBias(data, data, 5, 7, 0, comm, NULL, data));
    printf("all to all %d\n", ncclAllToAll(data, data, 5, 7, comm, NULL));
    printf("ragged %d\n", ncclAlltoAllv(data, &one, &two, data, &three, &four, 7, comm, NULL));
    printf("ragged, old name %d\n", ncclAllToAllv(data, &one, &two, data, &three, &four, 7, comm, NULL));
    return 0;
}
