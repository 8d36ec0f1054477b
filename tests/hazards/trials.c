/* Two ranks in one process, a thread each, make the same AllReduces of several classes while the library tries
 * them. Between them rank 0 alone makes calls that have no effect, and now and then it has all calls of a step in a
 * group where rank 1 makes them one by one. Prints for each rank how many calls were tried, and whether every result
 * was exact.
 *
 *   trials STEPS */
#include "hazard.h"

enum { SIZES = 3, TYPES = 4, CALLS = SIZES * TYPES, MOST = 65536 };

enum { ncclFloat16 = 6, ncclBfloat16 = 9 };
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info);

/* Of which the last cannot be compressed. */
static const int types[TYPES] = {ncclFloat32, ncclFloat16, ncclBfloat16, ncclInt32};
static const int widths[TYPES] = {4, 2, 2, 4};
static const size_t counts[SIZES] = {2048, 16384, MOST};

static struct clique clique;
static long steps;
static void *in[2], *out[2];
static int exact[2] = {1, 1};

/* Small whole numbers, in each type. */
static void put(char *at, int type, int value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, 4);
  uint16_t half = value ? (uint16_t)(((bits >> 16) & 0x8000) | (((bits >> 23) - 112) << 10) | ((bits >> 13) & 0x3ff)) : 0;
  uint16_t brain = (uint16_t)(bits >> 16);
  if (type == 0) memcpy(at, &number, 4);
  if (type == 1) memcpy(at, &half, 2);
  if (type == 2) memcpy(at, &brain, 2);
  if (type == 3) memcpy(at, &value, 4);
}

static int value(int rank, int seed, size_t i) { return (int)((i * 3 + (size_t)seed) % 13) + rank * 5; }

static int post(int rank, int call) {
  int type = call % TYPES, size = call / TYPES;
  return ncclAllReduce(in[rank], out[rank], counts[size], types[type], ncclSum, clique.comm[rank], clique.stream[rank]);
}

/* What only this rank does, and what has no effect. */
static void do_nothing(int rank, unsigned luck, int call) {
  if (luck % 3 == 0) {
    ncclSimInfo_t info = NCCL_SIM_INFO;
    CHECK(ncclGroupStart());
    CHECK(post(rank, call));
    CHECK(post(rank, (call + 1) % CALLS));
    CHECK(ncclGroupSimulateEnd(&info));
  }
  if (luck % 5 == 0 &&
      ncclAllReduce(in[rank], out[rank], counts[0], 99, ncclSum, clique.comm[rank], clique.stream[rank]) == 0)
    exact[rank] = 0;
}

static void check(int rank, int call, int seed, char *host, char *expected) {
  int type = call % TYPES, size = call / TYPES;
  size_t bytes = counts[size] * (size_t)widths[type];
  CHECK(cudaMemcpy(host, out[rank], bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < counts[size]; i++)
    put(expected + i * (size_t)widths[type], type, value(0, seed, i) + value(1, seed, i));
  if (memcmp(host, expected, bytes)) exact[rank] = 0;
}

static void *one_rank(void *number) {
  int rank = (int)(intptr_t)number;
  unsigned luck = 12345;
  char *host = malloc(4 * MOST), *expected = malloc(4 * MOST);
  CHECK(cudaSetDevice(rank));
  for (long step = 0; step < steps; step++)
    for (int call = 0; call < CALLS; call++) {
      int type = call % TYPES, seed = (int)step + call;
      luck = luck * 1664525u + 1013904223u;
      for (size_t i = 0; i < counts[call / TYPES]; i++) put(host + i * (size_t)widths[type], type, value(rank, seed, i));
      CHECK(cudaMemcpy(in[rank], host, counts[call / TYPES] * (size_t)widths[type], cudaMemcpyHostToDevice));
      if (rank == 0) do_nothing(rank, luck >> 16, call);
      int grouped = rank == 0 && (luck >> 20) % 4 == 0;
      if (grouped) CHECK(ncclGroupStart());
      CHECK(post(rank, call));
      if (grouped) CHECK(ncclGroupEnd());
      CHECK(cudaStreamSynchronize(clique.stream[rank]));
      check(rank, call, seed, host, expected);
    }
  /* The same calls, all in one group on rank 0. */
  for (long step = 0; step < steps; step++) {
    if (rank == 0) CHECK(ncclGroupStart());
    for (int call = 0; call < CALLS; call++) CHECK(post(rank, call));
    if (rank == 0) CHECK(ncclGroupEnd());
    CHECK(cudaStreamSynchronize(clique.stream[rank]));
  }
  free(host);
  free(expected);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  steps = atol(argv[1]);
  clique_open(&clique, 2);
  pthread_t threads[2];
  for (int rank = 0; rank < 2; rank++) {
    CHECK(cudaSetDevice(rank));
    CHECK(cudaMalloc(&in[rank], 4 * MOST));
    CHECK(cudaMalloc(&out[rank], 4 * MOST));
  }
  for (int rank = 0; rank < 2; rank++) pthread_create(&threads[rank], NULL, one_rank, (void *)(intptr_t)rank);
  for (int rank = 0; rank < 2; rank++) pthread_join(threads[rank], NULL);
  int (*ask)(ncclComm_t, unsigned long long *) =
      (int (*)(ncclComm_t, unsigned long long *))dlsym(RTLD_DEFAULT, "airampTrialCalls");
  for (int rank = 0; rank < 2; rank++) {
    unsigned long long trials = 0;
    int agreed = ask && ask(clique.comm[rank], &trials) == 0;
    printf("rank %d agreed=%d trials=%llu exact=%d\n", rank, agreed, trials, exact[rank]);
  }
  for (int rank = 0; rank < 2; rank++) CHECK(ncclCommDestroy(clique.comm[rank]));
  return 0;
}
