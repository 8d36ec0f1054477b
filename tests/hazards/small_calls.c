/* Two ranks in one process, a thread each, make N AllReduces of 16 KiB and wait for each. Prints the nanoseconds per
 * call.
 *
 *   small_calls N */
#include "hazard.h"

#include <time.h>

enum { SMALL = 4096 };

static struct clique clique;
static void *buffers[2];
static long calls;

static void *one_rank(void *number) {
  int rank = (int)(intptr_t)number;
  CHECK(cudaSetDevice(rank));
  for (long i = 0; i < calls; i++) {
    CHECK(ncclAllReduce(buffers[rank], buffers[rank], SMALL, ncclFloat32, ncclSum, clique.comm[rank], clique.stream[rank]));
    CHECK(cudaStreamSynchronize(clique.stream[rank]));
  }
  return NULL;
}

static double run(void) {
  struct timespec from, to;
  pthread_t threads[2];
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (intptr_t rank = 0; rank < 2; rank++) pthread_create(&threads[rank], NULL, one_rank, (void *)rank);
  for (int rank = 0; rank < 2; rank++) pthread_join(threads[rank], NULL);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)calls;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  clique_open(&clique, 2);
  for (int rank = 0; rank < 2; rank++) {
    CHECK(cudaSetDevice(rank));
    CHECK(cudaMalloc(&buffers[rank], SMALL * sizeof(float)));
  }
  calls = 100; /* first uses */
  run();
  calls = atol(argv[1]);
  printf("%.1f\n", run());
  for (int rank = 0; rank < 2; rank++) CHECK(ncclCommDestroy(clique.comm[rank]));
  return 0;
}
