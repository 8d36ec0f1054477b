/* Calls a library that calls its own exports, and prints what was counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int ncclCommInitAll(void **comms, int count, const int *devices);
int ncclAllReduceConfig(const void *, void *, size_t, int, int, void *, void *, const void *);

int main(void)
{
    static float data[4];
    void *comms[2];
    unsigned long long reserved = 99, committed = 99;
    int (*index)(void *, unsigned long long *, unsigned long long *);
    *(void **)&index = dlsym(RTLD_DEFAULT, "airampCallIndex");
    printf("init %d\n", ncclCommInitAll(comms, 2, NULL));
    for (int i = 0; i < 3; i++)
        printf("call %d\n", ncclAllReduceConfig(data, data, 4, 7, 0, comms[0], NULL, NULL));
    if (index) {
        printf("known %d", index(comms[0], &reserved, &committed));
        printf(" reserved %llu committed %llu\n", reserved, committed);
        printf("other %d", index(comms[1], &reserved, &committed));
        printf(" reserved %llu committed %llu\n", reserved, committed);
    }
    return 0;
}
