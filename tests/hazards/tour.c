/* Calls every function that the interposer takes part in, with every
 * communicator of one rank, and prints each return code and the result bits.
 * What the vendor lacks is skipped: it must not be called. */
#include "hazard.h"

static struct clique c;

/* New input and a cleared output, so that each call shows what it did itself. */
static void prepare_buffers(void) {
  static const float zeros[COUNT];
  static int step;
  clique_fill(&c, ++step);
  CHECK(cudaMemcpy(c.out[0], zeros, sizeof zeros, cudaMemcpyHostToDevice));
}

static void outcome(const char *name, ncclResult_t result) {
  clique_wait(&c);
  printf("%s %d %016llx\n", name, result, (unsigned long long)clique_bits(&c));
  prepare_buffers();
}

/* Calls a function that the vendor may lack, through a type of our own. */
#define IF_PRESENT(name, parameters, arguments)                      \
  do {                                                               \
    ncclResult_t(*function) parameters;                              \
    *(void **)&function = dlsym(RTLD_DEFAULT, #name);                \
    if (function) outcome(#name, function arguments);                \
    else printf("%s is not there\n", #name);                         \
  } while (0)

#define COMM c.comm[0]
#define STREAM c.stream[0]
#define IN c.in[0]
#define OUT c.out[0]
#define DATA COUNT, ncclFloat32

static ncclComm_t made_by_init_rank(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  outcome("ncclGetUniqueId", ncclGetUniqueId(&id));
  outcome("ncclCommInitRank", ncclCommInitRank(&comm, 1, id, 0));
  return comm;
}

static ncclComm_t made_with_a_configuration(void) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG;
  ncclComm_t comm = NULL;
  CHECK(ncclGetUniqueId(&id));
  outcome("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  return comm;
}

static void create_and_end(void) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG;
  ncclComm_t scalable = NULL, child = NULL, shrunk = NULL;
  int excluded = 0;
  ncclResult_t state;
  outcome("ncclCommFinalize", ncclCommFinalize(made_by_init_rank()));
  outcome("ncclCommAbort", ncclCommAbort(made_with_a_configuration()));
  CHECK(ncclGetUniqueId(&id));
  IF_PRESENT(ncclCommInitRankScalable,
             (ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *),
             (&scalable, 1, 0, 1, &id, &config));
  outcome("ncclCommSplit", ncclCommSplit(COMM, 0, 0, &child, NULL));
  IF_PRESENT(ncclCommShrink, (ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int),
             (COMM, &excluded, 0, &shrunk, NULL, 0));
  outcome("ncclCommGetAsyncError", ncclCommGetAsyncError(COMM, &state));
  IF_PRESENT(ncclCommGetUniqueId, (ncclComm_t, ncclUniqueId *), (COMM, &id));
  IF_PRESENT(ncclCommGrow,
             (ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *),
             (NULL, 0, NULL, -1, NULL, NULL));
  IF_PRESENT(ncclCommSuspend, (ncclComm_t, int), (child, 1));
  IF_PRESENT(ncclCommResume, (ncclComm_t), (child));
  IF_PRESENT(ncclCommRevoke, (ncclComm_t, int), (child, 0));
  if (shrunk) outcome("ncclCommDestroy", ncclCommDestroy(shrunk));
}

static void reduce_and_move(void) {
  outcome("ncclAllReduce", ncclAllReduce(IN, OUT, DATA, ncclSum, COMM, STREAM));
  outcome("ncclReduce", ncclReduce(IN, OUT, DATA, ncclSum, 0, COMM, STREAM));
  outcome("ncclReduceScatter", ncclReduceScatter(IN, OUT, DATA, ncclSum, COMM, STREAM));
  outcome("ncclAllGather", ncclAllGather(IN, OUT, DATA, COMM, STREAM));
  outcome("ncclBroadcast", ncclBroadcast(IN, OUT, DATA, 0, COMM, STREAM));
  IF_PRESENT(ncclBcast, (void *, size_t, int, int, ncclComm_t, cudaStream_t),
             (OUT, DATA, 0, COMM, STREAM));
  IF_PRESENT(ncclAlltoAll, (const void *, void *, size_t, int, ncclComm_t, cudaStream_t),
             (IN, OUT, DATA, COMM, STREAM));
  IF_PRESENT(ncclGather, (const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t),
             (IN, OUT, DATA, 0, COMM, STREAM));
  IF_PRESENT(ncclScatter, (const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t),
             (IN, OUT, DATA, 0, COMM, STREAM));
}

#define REDUCTION_CONFIG \
  (const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t, const void *)
#define ROOTED_CONFIG REDUCTION_CONFIG

static void reduce_and_move_with_a_configuration(void) {
  IF_PRESENT(ncclAllReduceConfig, REDUCTION_CONFIG, (IN, OUT, DATA, ncclSum, COMM, STREAM, NULL));
  IF_PRESENT(ncclReduceScatterConfig, REDUCTION_CONFIG,
             (IN, OUT, DATA, ncclSum, COMM, STREAM, NULL));
  IF_PRESENT(ncclReduceConfig,
             (const void *, void *, size_t, int, int, int, ncclComm_t, cudaStream_t, const void *),
             (IN, OUT, DATA, ncclSum, 0, COMM, STREAM, NULL));
  IF_PRESENT(ncclBroadcastConfig, ROOTED_CONFIG, (IN, OUT, DATA, 0, COMM, STREAM, NULL));
  IF_PRESENT(ncclGatherConfig, ROOTED_CONFIG, (IN, OUT, DATA, 0, COMM, STREAM, NULL));
  IF_PRESENT(ncclScatterConfig, ROOTED_CONFIG, (IN, OUT, DATA, 0, COMM, STREAM, NULL));
  IF_PRESENT(ncclAllGatherConfig,
             (const void *, void *, size_t, int, ncclComm_t, cudaStream_t, const void *),
             (IN, OUT, DATA, COMM, STREAM, NULL));
  IF_PRESENT(ncclAlltoAllConfig,
             (const void *, void *, size_t, int, ncclComm_t, cudaStream_t, const void *),
             (IN, OUT, DATA, COMM, STREAM, NULL));
}

static void group_and_pair(void) {
  ncclSimInfo_t info = NCCL_SIM_INFO;
  CHECK(ncclGroupStart());
  printf("ncclSend %d\n", ncclSend(IN, DATA, 0, COMM, STREAM));
  printf("ncclRecv %d\n", ncclRecv(OUT, DATA, 0, COMM, STREAM));
  outcome("ncclGroupEnd", ncclGroupEnd());
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(IN, OUT, DATA, ncclSum, COMM, STREAM));
  IF_PRESENT(ncclGroupSimulateEnd, (ncclSimInfo_t *), (&info));
}

static void own_operator(void) {
  float factor = 0.5f;
  int reduction = 0;
  IF_PRESENT(ncclRedOpCreatePreMulSum, (int *, void *, int, int, ncclComm_t),
             (&reduction, &factor, ncclFloat32, 1, COMM));
  outcome("with the operator", ncclAllReduce(IN, OUT, DATA, reduction, COMM, STREAM));
  IF_PRESENT(ncclRedOpDestroy, (int, ncclComm_t), (reduction, COMM));
}

int main(void) {
  ncclUniqueId unused;
  /* The library reads its settings, an injected fault among them, in the first
   * call: from the second on the fault can strike. */
  CHECK(ncclGetUniqueId(&unused));
  clique_open(&c, 1);
  prepare_buffers();
  outcome("with result bits", ncclAllReduce(IN, OUT, DATA, ncclSum, COMM, STREAM));
  create_and_end();
  reduce_and_move();
  reduce_and_move_with_a_configuration();
  group_and_pair();
  own_operator();
  clique_close(&c);
  return 0;
}
