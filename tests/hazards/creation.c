/* Makes a communicator by every path and shows on standard error whether the interposer
 * counts its calls, after one AllReduce on each. */
#include "hazard.h"

enum { NCCL_IN_PROGRESS = 7 };

static struct clique c;

typedef ncclResult_t (*scalable_function)(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
typedef ncclResult_t (*shrink_function)(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
typedef ncclResult_t (*id_function)(ncclComm_t, ncclUniqueId *);
typedef ncclResult_t (*grow_function)(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);

static void *newer(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) fprintf(stderr, "%s is missing\n", name), _exit(98);
  return function;
}

static void settle(ncclComm_t comm) {
  ncclResult_t state = NCCL_IN_PROGRESS;
  for (int i = 0; i < 10000 && state == NCCL_IN_PROGRESS; i++) {
    CHECK(ncclCommGetAsyncError(comm, &state));
    usleep(1000);
  }
}

/* One call on a communicator of one rank on device 0. */
static void use(const char *how, ncclComm_t comm) {
  char text[48];
  CHECK(cudaSetDevice(0));
  ncclResult_t result = ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, comm, c.stream[0]);
  if (result == NCCL_IN_PROGRESS) settle(comm);
  else CHECK(result);
  CHECK(cudaStreamSynchronize(c.stream[0]));
  fprintf(stderr, "%s %s\n", how, index_text(comm, text));
}

static ncclUniqueId new_id(void) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  return id;
}

static void by_id(void) {
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG;
  ncclUniqueId id = new_id();
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  use("rank", comm);
  CHECK(ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config));
  use("configured", comm);
  id = new_id();
  CHECK(((scalable_function)newer("ncclCommInitRankScalable"))(&comm, 1, 0, 1, &id, &config));
  use("scalable", comm);
  CHECK(ncclGroupStart());
  CHECK(ncclCommInitRank(&comm, 1, new_id(), 0));
  CHECK(ncclGroupEnd());
  use("rank-in-group", comm);
  config.blocking = 0;
  comm = NULL;
  ncclResult_t result = ncclCommInitRankConfig(&comm, 1, new_id(), 0, &config);
  if (result != NCCL_IN_PROGRESS) CHECK(result);
  settle(comm);
  use("non-blocking", comm);
}

static void by_parent(void) {
  ncclComm_t child = NULL, other = NULL;
  int excluded = 1;
  CHECK(ncclCommSplit(c.comm[0], 0, 0, &child, NULL));
  use("split", child);
  CHECK(ncclGroupStart());
  CHECK(ncclCommSplit(c.comm[0], 0, 0, &child, NULL));
  CHECK(ncclGroupEnd());
  use("split-in-group", child);
  ncclUniqueId id;
  CHECK(((id_function)newer("ncclCommGetUniqueId"))(c.comm[0], &id));
  grow_function grow = (grow_function)newer("ncclCommGrow");
  CHECK(ncclGroupStart());
  CHECK(grow(c.comm[0], 2, &id, -1, &child, NULL));
  CHECK(cudaSetDevice(1));
  CHECK(grow(NULL, 2, &id, 1, &other, NULL));
  CHECK(ncclGroupEnd());
  char text[48];
  fprintf(stderr, "grown %s\n", index_text(child, text));
  fprintf(stderr, "joined %s\n", index_text(other, text));
  CHECK(cudaSetDevice(0));
  CHECK(((shrink_function)newer("ncclCommShrink"))(child, &excluded, 1, &other, NULL, 0));
  use("shrunk", other);
  CHECK(((shrink_function)newer("ncclCommShrink"))(child, &excluded, 1, &other, NULL, 1));
  use("shrunk-with-abort", other);
}

int main(void) {
  clique_open(&c, 1);
  clique_fill(&c, 1);
  use("all", c.comm[0]);
  by_id();
  by_parent();
  print_bits("result", clique_bits(&c));
  return 0;
}
