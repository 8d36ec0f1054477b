/* Two ranks in one process, a thread each, make N AllReduces of 16 KiB and wait for each. Prints the nanoseconds per
 * call, by the clock and of processor time of all threads.
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

static double now(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static void run(void) {
  pthread_t threads[2];
  for (intptr_t rank = 0; rank < 2; rank++) pthread_create(&threads[rank], NULL, one_rank, (void *)rank);
  for (int rank = 0; rank < 2; rank++) pthread_join(threads[rank], NULL);
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
  double from = now(CLOCK_MONOTONIC), worked = now(CLOCK_PROCESS_CPUTIME_ID);
  run();
  double calls_made = (double)calls;
  printf("%.1f %.1f\n", (now(CLOCK_MONOTONIC) - from) / calls_made, (now(CLOCK_PROCESS_CPUTIME_ID) - worked) / calls_made);
  for (int rank = 0; rank < 2; rank++) CHECK(ncclCommDestroy(clique.comm[rank]));
  return 0;
}
