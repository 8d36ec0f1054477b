/* Three ranks in one process, a thread each, make calls of every kind in every way: outside groups and in them, nested,
 * simulated, rolled back, captured, refused, on two communicators. The program keeps its own account of what took
 * effect, and prints it: one line for each kind, path and datatype, for each error, and for each rank.
 *
 *   counted_calls MIN_BYTES    calls that can be compressed are, from so many bytes on; 0: none is */
#include "hazard.h"

enum { RANKS = 3, KINDS = 12, PATHS = 5, TYPES = 12, ROUNDS = 3, MOST_COUNT = 4096, UNLIKE = 100, MOST_KEPT = 256 };
enum { ALL_REDUCE, WITH_BIAS, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL, ALL_TO_ALL_V, GATHER, SCATTER, SEND, RECV };
enum { VENDOR, COMPRESSED, TRIAL, VENDOR_CAPTURED, COMPRESSED_CAPTURED };
static const int widths[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info);
typedef ncclResult_t (*even)(const void *, void *, size_t, int, ncclComm_t, cudaStream_t);
typedef ncclResult_t (*rooted)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
static even all_to_all;
static rooted gather, scatter;

struct total { unsigned long long calls, logical, would; };
struct call { int kind, path, type, root; size_t count; };

static struct total totals[KINDS][PATHS][TYPES];
static unsigned long long errors[16], issued[2][RANKS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct clique clique;
static unsigned long long min_bytes;

/* One rank, and what it keeps of an open group. */
struct rank {
  int number, depth, kept, captures;
  ncclComm_t comm[2];
  cudaStream_t stream;
  void *in, *out;
  struct call calls[MOST_KEPT];
  int on[MOST_KEPT];
};

static unsigned long long sent(const struct rank *me, const struct call *call, unsigned long long bytes) {
  int is_root = me->number == call->root;
  switch (call->kind) {
  case ALL_REDUCE: return bytes * 2 * (RANKS - 1) / RANKS;
  case REDUCE_SCATTER: case ALL_GATHER: case ALL_TO_ALL: return bytes * (RANKS - 1);
  case REDUCE: case GATHER: return is_root ? 0 : bytes;
  case BROADCAST: return (me->number + 1) % RANKS == call->root ? 0 : bytes;
  case SCATTER: return is_root ? bytes * (RANKS - 1) : 0;
  case SEND: return bytes;
  default: return 0;
  }
}

static void account(struct rank *me, const struct call *call, int on) {
  unsigned long long bytes = call->count * (size_t)widths[call->type], logical = bytes;
  int is_root = me->number == call->root;
  if (call->kind == REDUCE_SCATTER || call->kind == ALL_GATHER || call->kind == ALL_TO_ALL) logical *= RANKS;
  if ((call->kind == GATHER || call->kind == SCATTER) && is_root) logical *= RANKS;
  struct total *total = &totals[call->kind][call->path][call->type];
  pthread_mutex_lock(&turn);
  total->calls++;
  total->logical += logical;
  total->would += sent(me, call, bytes);
  issued[on][me->number] += call->kind != SEND && call->kind != RECV;
  pthread_mutex_unlock(&turn);
}

static int result_of(int result) {
  pthread_mutex_lock(&turn);
  if (result) errors[result & 15]++;
  pthread_mutex_unlock(&turn);
  return result;
}

static int is_compressed(const struct call *call) {
  int type = call->type == 6 || call->type == 7 || call->type == 9;
  return min_bytes && call->kind == ALL_REDUCE && type && call->count * (size_t)widths[call->type] >= min_bytes;
}

static int post(struct rank *me, const struct call *c, int on) {
  ncclComm_t comm = me->comm[on];
  int next = (me->number + 1) % RANKS, before = (me->number + RANKS - 1) % RANKS;
  switch (c->kind) {
  case ALL_REDUCE: return ncclAllReduce(me->in, me->out, c->count, c->type, ncclSum, comm, me->stream);
  case REDUCE: return ncclReduce(me->in, me->out, c->count, c->type, ncclSum, c->root, comm, me->stream);
  case REDUCE_SCATTER: return ncclReduceScatter(me->in, me->out, c->count, c->type, ncclSum, comm, me->stream);
  case ALL_GATHER: return ncclAllGather(me->in, me->out, c->count, c->type, comm, me->stream);
  case BROADCAST: return ncclBroadcast(me->in, me->out, c->count, c->type, c->root, comm, me->stream);
  case ALL_TO_ALL: return all_to_all(me->in, me->out, c->count, c->type, comm, me->stream);
  case GATHER: return gather(me->in, me->out, c->count, c->type, c->root, comm, me->stream);
  case SCATTER: return scatter(me->in, me->out, c->count, c->type, c->root, comm, me->stream);
  case SEND: return ncclSend(me->in, c->count, c->type, next, comm, me->stream);
  case RECV: return ncclRecv(me->out, c->count, c->type, before, comm, me->stream);
  default: return 0;
  }
}

static int is_there(int kind) {
  return kind != WITH_BIAS && kind != ALL_TO_ALL_V && (kind != ALL_TO_ALL || all_to_all) &&
         (kind != GATHER || gather) && (kind != SCATTER || scatter);
}

static void do_call(struct rank *me, int kind, int type, size_t count, int on) {
  struct call call = {.kind = kind, .type = type, .count = count, .root = kind % RANKS};
  if (!is_there(kind)) return;
  call.path = is_compressed(&call) ? COMPRESSED : VENDOR;
  if (me->captures) call.path = call.path == COMPRESSED ? COMPRESSED_CAPTURED : VENDOR_CAPTURED;
  if (result_of(post(me, &call, on))) return;
  if (!me->depth) return account(me, &call, on);
  me->calls[me->kept] = call;
  me->on[me->kept++] = on;
}

static void start(struct rank *me) {
  CHECK(ncclGroupStart());
  me->depth++;
}

static void end(struct rank *me) {
  int result = result_of(ncclGroupEnd());
  if (--me->depth) return;
  for (int i = 0; i < me->kept && !result; i++) account(me, &me->calls[i], me->on[i]);
  me->kept = 0;
}

static void simulate(struct rank *me) {
  ncclSimInfo_t info = NCCL_SIM_INFO;
  start(me);
  do_call(me, ALL_REDUCE, ncclFloat32, 2000, 0);
  do_call(me, BROADCAST, ncclInt32, 10, 0);
  CHECK(ncclGroupSimulateEnd(&info));
  me->depth = me->kept = 0;
}

static void in_groups(struct rank *me) {
  start(me);
  do_call(me, SEND, ncclFloat32, 77, 0);
  do_call(me, RECV, ncclFloat32, 77, 0);
  end(me);
  start(me);
  start(me);
  for (int i = 0; i < 5; i++) do_call(me, ALL_REDUCE, ncclFloat32, 1500, 0);
  end(me);
  do_call(me, ALL_GATHER, ncclInt32, 9, 1);
  do_call(me, ALL_REDUCE, ncclInt32, 9, 0);
  end(me);
  start(me);
  for (int i = 0; i < UNLIKE; i++) do_call(me, ALL_REDUCE, ncclFloat32, 100 + (size_t)i, i % 2);
  end(me);
}

/* Nothing of a group in which a call is refused takes effect. */
static void rolled_back(struct rank *me) {
  start(me);
  do_call(me, ALL_REDUCE, ncclInt32, 11, 0);
  result_of(ncclAllReduce(me->in, me->out, 8, 99, ncclSum, me->comm[0], me->stream));
  end(me);
}

static void captured(struct rank *me) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamSynchronize(me->stream));
  CHECK(cudaStreamBeginCapture(me->stream, cudaStreamCaptureModeThreadLocal));
  me->captures = 1;
  do_call(me, ALL_REDUCE, ncclFloat32, 2048, 0);
  do_call(me, ALL_REDUCE, ncclInt32, 2048, 0);
  start(me);
  do_call(me, ALL_REDUCE, ncclFloat32, 2049, 0);
  do_call(me, BROADCAST, ncclFloat32, 50, 0);
  end(me);
  me->captures = 0;
  CHECK(cudaStreamEndCapture(me->stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, me->stream));
  CHECK(cudaStreamSynchronize(me->stream));
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}

static void *one_rank(void *argument) {
  struct rank *me = argument;
  CHECK(cudaSetDevice(me->number));
  for (int round = 0; round < ROUNDS; round++) {
    for (int kind = 0; kind < SEND; kind++)
      for (int type = 0; type < TYPES; type++) do_call(me, kind, type, 1000 + (size_t)type, type % 2);
    for (int i = 0; i < 70; i++) do_call(me, ALL_REDUCE, ncclFloat32, MOST_COUNT, 0);
    do_call(me, ALL_REDUCE, ncclFloat32, 0, 0);
    simulate(me);
    in_groups(me);
    rolled_back(me);
    result_of(ncclAllReduce(me->in, me->out, 8, 99, ncclSum, me->comm[0], me->stream));
    captured(me);
    ncclResult_t state;
    CHECK(ncclCommGetAsyncError(me->comm[0], &state));
    CHECK(cudaStreamSynchronize(me->stream));
    CHECK(ncclCommGetAsyncError(me->comm[0], &state));
  }
  return NULL;
}

static void *split(void *argument) {
  struct rank *me = argument;
  CHECK(cudaSetDevice(me->number));
  CHECK(ncclCommSplit(me->comm[0], 0, me->number, &me->comm[1], NULL));
  return NULL;
}

static void in_threads(struct rank *ranks, void *(*body)(void *)) {
  pthread_t threads[RANKS];
  for (int r = 0; r < RANKS; r++) pthread_create(&threads[r], NULL, body, &ranks[r]);
  for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
}

static void print_account(void) {
  for (int kind = 0; kind < KINDS; kind++)
    for (int path = 0; path < PATHS; path++)
      for (int type = 0; type < TYPES; type++) {
        struct total *t = &totals[kind][path][type];
        if (t->calls) printf("count %d %d %d %llu %llu %llu\n", kind, path, type, t->calls, t->logical, t->would);
      }
  for (int result = 0; result < 16; result++)
    if (errors[result]) printf("error %d %llu\n", result, errors[result]);
  for (int on = 0; on < 2; on++)
    for (int r = 0; r < RANKS; r++) printf("issued %d %d %llu\n", on, r, issued[on][r]);
}

int main(int argc, char **argv) {
  static struct rank ranks[RANKS];
  if (argc != 2) return 2;
  min_bytes = strtoull(argv[1], NULL, 10);
  *(void **)&all_to_all = dlsym(RTLD_DEFAULT, "ncclAlltoAll");
  *(void **)&gather = dlsym(RTLD_DEFAULT, "ncclGather");
  *(void **)&scatter = dlsym(RTLD_DEFAULT, "ncclScatter");
  clique_open(&clique, RANKS);
  for (int r = 0; r < RANKS; r++) {
    ranks[r] = (struct rank){.number = r, .comm = {clique.comm[r]}, .stream = clique.stream[r]};
    CHECK(cudaSetDevice(r));
    CHECK(cudaMalloc(&ranks[r].in, 8 * MOST_COUNT * RANKS));
    CHECK(cudaMalloc(&ranks[r].out, 8 * MOST_COUNT * RANKS));
  }
  in_threads(ranks, split);
  in_threads(ranks, one_rank);
  for (int r = 0; r < RANKS; r++) {
    unsigned long long trials = 0;
    int (*ask)(ncclComm_t, unsigned long long *) = (int (*)(ncclComm_t, unsigned long long *))dlsym(RTLD_DEFAULT, "airampTrialCalls");
    for (int on = 0; on < 2; on++)
      if (ask && ask(ranks[r].comm[on], &trials) == 0) printf("trials %d %d %llu\n", on, r, trials);
  }
  for (int on = 1; on >= 0; on--)
    for (int r = 0; r < RANKS; r++) {
      CHECK(cudaSetDevice(r));
      CHECK(ncclCommDestroy(ranks[r].comm[on]));
    }
  print_account();
  return 0;
}
