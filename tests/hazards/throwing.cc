// A vendor that throws, or, without VENDOR, a program that catches what it throws.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

struct unique_id { char internal[128]; };
extern "C" {
#ifdef VENDOR
static int communicator;
int ncclGetUniqueId(unique_id *id) { memset(id, 0, sizeof *id); return 0; }
int ncclCommInitRank(void **comm, int, unique_id, int) { *comm = &communicator; return 0; }
int ncclAllReduce(const void *, void *, size_t count, int, int, void *, void *)
{
    if (count == 5) throw 5;
    return 0;
}
int cuInit(unsigned) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuStreamIsCapturing(void *, int *status) { *status = 0; return 0; }
#else
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(void **comm, int nranks, unique_id id, int rank);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
#endif
}

#ifndef VENDOR
int main()
{
    static float data[8];
    unique_id id;
    void *comm = nullptr;
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 1, id, 0);
    try {
        ncclAllReduce(data, data, 5, 7, 0, comm, nullptr);
        std::puts("no exception");
    } catch (int number) {
        std::printf("caught %d\n", number);
    }
    std::printf("after it %d\n", ncclAllReduce(data, data, 4, 7, 0, comm, nullptr));
    unsigned long long reserved = 0, committed = 0;
    auto index = reinterpret_cast<int (*)(void *, unsigned long long *, unsigned long long *)>(
        dlsym(RTLD_DEFAULT, "airampCallIndex"));
    if (index && !index(comm, &reserved, &committed))
        std::fprintf(stderr, "index %llu/%llu\n", reserved, committed);
}
#endif
