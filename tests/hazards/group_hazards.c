/* Groups that are used in unusual ways; the vendor alone runs most of them. Each scenario prints what it saw. */
#include "hazard.h"

enum { ncclHostImmediate = 1, FAILED = 3 };
typedef ncclResult_t (*create_op)(int *, void *, int, int, ncclComm_t);
typedef ncclResult_t (*destroy_op)(int, ncclComm_t);
typedef ncclResult_t (*all_to_all_v)(const void *, const size_t *, const size_t *, void *, const size_t *,
                                     const size_t *, int, ncclComm_t, cudaStream_t);

typedef ncclResult_t (*revoke_function)(ncclComm_t, int);
typedef ncclResult_t (*shrink_function)(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
typedef ncclResult_t (*all_reduce_config)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t,
                                          const void *);

static void *newer(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) fprintf(stderr, "%s is missing\n", name), _exit(98);
  return function;
}

static void show(const char *what, int value) {
  printf("%s %d\n", what, value);
  fflush(stdout);
}

/* An operator may be destroyed as soon as the call that it was given to has returned. */
static void operators(void) {
  static struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  create_op create = (create_op)newer("ncclRedOpCreatePreMulSum");
  destroy_op destroy = (destroy_op)newer("ncclRedOpDestroy");
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    float factor = 2;
    int op = 0;
    CHECK(create(&op, &factor, ncclFloat32, ncclHostImmediate, c.comm[r]));
    CHECK(ncclAllReduce(c.in[r], c.out[r], COUNT, ncclFloat32, op, c.comm[r], c.stream[r]));
    CHECK(destroy(op, c.comm[r]));
  }
  show("group end", ncclGroupEnd());
  clique_wait(&c);
  print_bits("result", clique_bits(&c));
}

/* The handle of a destroyed operator is given to the next one. */
static void recycled_operators(void) {
  static struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  create_op create = (create_op)newer("ncclRedOpCreatePreMulSum");
  destroy_op destroy = (destroy_op)newer("ncclRedOpDestroy");
  int last[2];
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    float two = 2, ten = 10;
    int op = 0;
    CHECK(create(&op, &two, ncclFloat32, ncclHostImmediate, c.comm[r]));
    CHECK(ncclAllReduce(c.in[r], c.out[r], COUNT, ncclFloat32, op, c.comm[r], c.stream[r]));
    CHECK(destroy(op, c.comm[r]));
    CHECK(create(&last[r], &ten, ncclFloat32, ncclHostImmediate, c.comm[r]));
  }
  show("group end", ncclGroupEnd());
  clique_wait(&c);
  float first;
  CHECK(cudaMemcpy(&first, c.out[0], sizeof first, cudaMemcpyDeviceToHost));
  printf("first %f\n", first);
}

/* A group with a call that fails; then another one. */
static void failing(int null) {
  static struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  CHECK(ncclGroupStart());
  clique_enqueue(&c);
  if (null) ncclAllReduce(NULL, c.out[0], COUNT, ncclFloat32, ncclSum, c.comm[0], c.stream[0]);
  else ncclBroadcast(c.in[0], c.out[0], COUNT, ncclFloat32, 99, c.comm[0], c.stream[0]);
  show("group failed", ncclGroupEnd() != 0);
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++)
    ncclAllReduce(c.in[r], c.out[r], COUNT, ncclFloat32, ncclSum, c.comm[r], c.stream[r]);
  show("next group", ncclGroupEnd());
}

/* Of a call with a configuration the vendor has taken what it says before the rest of the group fails. */
static void configured(void) {
  static struct clique c, other;
  clique_open(&c, 2);
  clique_open(&other, 2);
  clique_fill(&c, 1);
  all_reduce_config function = (all_reduce_config)newer("ncclAllReduceConfig");
  struct { size_t size; unsigned magic, version; unsigned char fields[112]; } config;
  memset(&config, 0xff, sizeof config);
  config.size = sizeof config, config.magic = 0xcafebeef, config.version = 23203;
  CHECK(ncclGroupStart());
  clique_enqueue(&c);
  for (int r = 0; r < 2; r++)
    CHECK(function(other.in[r], other.out[r], 2, ncclFloat32, ncclSum, other.comm[r], other.stream[r], &config));
  CHECK(ncclBroadcast(c.in[0], c.out[0], COUNT, ncclFloat32, 99, c.comm[0], c.stream[0]));
  show("group failed", ncclGroupEnd() != 0);
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++)
    ncclAllReduce(other.in[r], other.out[r], COUNT, ncclFloat32, ncclSum, other.comm[r], other.stream[r]);
  show("next group", ncclGroupEnd());
}

/* Communicators that are made inside a group. */
static void in_a_group(void) {
  static ncclComm_t comm[2];
  int devices[2] = {0, 1};
  CHECK(ncclGroupStart());
  show("init all", ncclCommInitAll(comm, 2, devices));
  show("group end", ncclGroupEnd());
}

struct rank { int rank; pthread_t thread; };
static ncclUniqueId ids[3];
static pthread_barrier_t barrier;

/* Two groups that name three communicators in opposite orders, all for the first time. */
static void *crossing(void *argument) {
  int rank = ((struct rank *)argument)->rank;
  ncclComm_t comm[3];
  cudaStream_t stream[3];
  float *in, *out, *message;
  CHECK(cudaSetDevice(rank));
  CHECK(cudaMalloc((void **)&message, 2 * sizeof(float)));
  for (int i = 0; i < 3; i++) {
    CHECK(ncclCommInitRank(&comm[i], 2, ids[i], rank));
    CHECK(cudaStreamCreate(&stream[i]));
  }
  CHECK(cudaMalloc((void **)&in, COUNT * sizeof(float)));
  CHECK(cudaMalloc((void **)&out, COUNT * sizeof(float)));
  CHECK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm[0], stream[0]));
  CHECK(cudaStreamSynchronize(stream[0]));
  CHECK(ncclGroupStart());
  if (rank == 0) {
    CHECK(ncclSend(message, 1, ncclFloat32, 1, comm[1], stream[1]));
    CHECK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm[0], stream[0]));
    CHECK(ncclSend(message, 1, ncclFloat32, 1, comm[2], stream[2]));
  } else {
    CHECK(ncclRecv(message, 1, ncclFloat32, 0, comm[2], stream[2]));
    CHECK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm[0], stream[0]));
    CHECK(ncclRecv(message + 1, 1, ncclFloat32, 0, comm[1], stream[1]));
  }
  CHECK(ncclGroupEnd());
  for (int i = 0; i < 3; i++) CHECK(cudaStreamSynchronize(stream[i]));
  return NULL;
}

static void threads(int ranks, void *(*body)(void *)) {
  struct rank all[8];
  pthread_barrier_init(&barrier, NULL, ranks);
  for (int i = 0; i < 3; i++) CHECK(ncclGetUniqueId(&ids[i]));
  for (int r = 0; r < ranks; r++) {
    all[r].rank = r;
    pthread_create(&all[r].thread, NULL, body, &all[r]);
  }
  for (int r = 0; r < ranks; r++) pthread_join(all[r].thread, NULL);
  show("done", 1);
}

/* The counts are the caller's again when the call has returned. */
static void counts(void) {
  static struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  all_to_all_v function = (all_to_all_v)newer("ncclAlltoAllv");
  size_t number[2], offset[2];
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    for (int p = 0; p < 2; p++) number[p] = 10, offset[p] = 10 * p;
    CHECK(function(c.in[r], number, offset, c.out[r], number, offset, ncclFloat32, c.comm[r], c.stream[r]));
    for (int p = 0; p < 2; p++) number[p] = 3, offset[p] = 0;
  }
  show("group end", ncclGroupEnd());
  clique_wait(&c);
  print_bits("result", clique_bits(&c));
}

/* A communicator is aborted while a group holds calls of it, and the next one gets its address. */
static struct clique first, second;

static void *abort_and_renew(void *unused) {
  CHECK(ncclCommAbort(first.comm[0]));
  CHECK(ncclCommAbort(first.comm[1]));
  clique_open(&second, 2);
  return unused;
}

static void renewed(void) {
  pthread_t thread;
  clique_open(&first, 2);
  CHECK(ncclGroupStart());
  clique_enqueue(&first);
  pthread_create(&thread, NULL, abort_and_renew, NULL);
  pthread_join(thread, NULL);
  fprintf(stderr, "%p %p; %p %p\n", (void *)first.comm[0], (void *)first.comm[1], (void *)second.comm[0], (void *)second.comm[1]);
  show("group failed", ncclGroupEnd() != 0);
  clique_fill(&second, 2);
  CHECK(ncclGroupStart());
  clique_enqueue(&second);
  show("the new one", ncclGroupEnd());
}

/* A communicator that is finalized or destroyed inside a group that uses it. */
static void ending(ncclResult_t (*end)(ncclComm_t)) {
  static struct clique c;
  clique_open(&c, 2);
  clique_all_reduce(&c, 1);
  uint64_t before = clique_bits(&c);
  clique_fill(&c, 5);
  CHECK(ncclGroupStart());
  clique_enqueue(&c);
  int a = end(c.comm[0]), b = end(c.comm[1]);
  int failed = ncclGroupEnd() != 0;
  clique_wait(&c);
  printf("ended %d %d, group failed %d, changed %d\n", a, b, failed, before != clique_bits(&c));
}

/* A program that looks at the results of its groups, not of the calls in them. */
static void careless(void) {
  static struct clique c;
  clique_open(&c, 2);
  for (int round = 0; round < 3; round++) {
    clique_fill(&c, round);
    CHECK(ncclGroupStart());
    for (int r = 0; r < 2; r++)
      ncclAllReduce(c.in[r], c.out[r], COUNT, ncclFloat32, ncclSum, c.comm[r], c.stream[r]);
    show("group end", ncclGroupEnd());
  }
}

/* Behind a call that failed: what can be made from its communicators, before they are revoked and then. */
static void derived(void) {
  static struct clique c;
  ncclComm_t child[2] = {NULL, NULL};
  int excluded = 1;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++)
    ncclAllReduce(c.in[r], c.out[r], COUNT, ncclFloat32, ncclSum, c.comm[r], c.stream[r]);
  show("call", ncclGroupEnd());
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++) ncclCommSplit(c.comm[r], 0, r, &child[r], NULL);
  show("split", ncclGroupEnd());
  revoke_function revoke = (revoke_function)newer("ncclCommRevoke");
  for (int r = 0; r < 2; r++) show("revoke", revoke(c.comm[r], 0));
  shrink_function shrink = (shrink_function)newer("ncclCommShrink");
  show("shrink", shrink(c.comm[0], &excluded, 1, &child[0], NULL, 0));
}

static struct clique overtaken_clique;
static pthread_barrier_t about_to_end;

static void *abort_both(void *unused) {
  (void)unused;
  pthread_barrier_wait(&about_to_end);
  usleep(100 * 1000);
  for (int r = 0; r < 2; r++) show("abort", ncclCommAbort(overtaken_clique.comm[r]));
  return NULL;
}

/* Another thread aborts while the group's end is under way, which takes the vendor longer than that; the vendor's part of the
 * group would come first. */
static void overtaken(void) {
  struct clique *c = &overtaken_clique;
  clique_open(c, 2);
  clique_fill(c, 1);
  pthread_t thread;
  pthread_barrier_init(&about_to_end, NULL, 2);
  pthread_create(&thread, NULL, abort_both, NULL);
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++)
    CHECK(ncclAllReduce(c->in[r], c->out[r], COUNT, ncclInt32, ncclSum, c->comm[r], c->stream[r]));
  clique_enqueue(c);
  pthread_barrier_wait(&about_to_end);
  int failed = ncclGroupEnd() != 0;
  pthread_join(thread, NULL);
  show("group failed", failed);
}

/* Two calls and messages in one group; the first of the calls may fail. */
static void twice(void) {
  static struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 1);
  float *message[2];
  for (int r = 0; r < 2; r++) {
    CHECK(cudaSetDevice(r));
    CHECK(cudaMalloc((void **)&message[r], 8 * sizeof(float)));
  }
  CHECK(ncclGroupStart());
  clique_enqueue(&c);
  for (int r = 0; r < 2; r++)
    CHECK(ncclAllReduce(c.out[r], c.out[r], COUNT, ncclFloat32, ncclSum, c.comm[r], c.stream[r]));
  CHECK(ncclSend(message[0], 8, ncclFloat32, 1, c.comm[0], c.stream[0]));
  CHECK(ncclRecv(message[1], 8, ncclFloat32, 0, c.comm[1], c.stream[1]));
  show("group end", ncclGroupEnd());
  int (*calls)(ncclComm_t, unsigned long long *);
  *(void **)&calls = dlsym(RTLD_DEFAULT, "airampCompressedCalls");
  unsigned long long number = 99;
  if (calls && calls(c.comm[0], &number) == 0) fprintf(stderr, "compressed %llu\n", number);
  report_index("after", c.comm[0]);
  _exit(0);
}

int main(int argc, char **argv) {
  const char *name = scenario(argc, argv);
  alarm(25);
  if (!strcmp(name, "operators")) operators();
  else if (!strcmp(name, "recycled")) recycled_operators();
  else if (!strcmp(name, "failing")) failing(0);
  else if (!strcmp(name, "null")) failing(1);
  else if (!strcmp(name, "configured")) configured();
  else if (!strcmp(name, "in_a_group")) in_a_group();
  else if (!strcmp(name, "crossing")) threads(2, crossing);
  else if (!strcmp(name, "counts")) counts();
  else if (!strcmp(name, "renewed")) renewed();
  else if (!strcmp(name, "finalized")) ending(ncclCommFinalize);
  else if (!strcmp(name, "ended")) ending(ncclCommDestroy);
  else if (!strcmp(name, "careless")) careless();
  else if (!strcmp(name, "derived")) derived();
  else if (!strcmp(name, "overtaken")) overtaken();
  else if (!strcmp(name, "twice")) twice();
  else return unknown_scenario();
  return 0;
}
