/* The interposer's call index, clause by clause: each scenario prints
 * reserved/committed after each step. It needs the library. */
#include "hazard.h"

static struct clique c;
static ncclComm_t other;

static void show(const char *after, ncclComm_t comm) {
  char text[48];
  printf("%s: %s\n", after, index_text(comm, text));
}

static ncclResult_t all_reduce_of(size_t count, int type) {
  return ncclAllReduce(c.in[0], c.out[0], count, type, ncclSum, c.comm[0], c.stream[0]);
}

static ncclResult_t all_reduce(void) { return all_reduce_of(COUNT, ncclFloat32); }

static void outside_a_group(void) {
  show("new", c.comm[0]);
  for (int i = 0; i < 3; i++) {
    CHECK(all_reduce());
    show("call", c.comm[0]);
  }
}

static void in_a_group(void) {
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  show("first call", c.comm[0]);
  CHECK(all_reduce());
  show("second call", c.comm[0]);
  CHECK(ncclGroupEnd());
  show("end", c.comm[0]);
}

static void in_nested_groups(void) {
  CHECK(ncclGroupStart());
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  CHECK(ncclGroupEnd());
  show("inner end", c.comm[0]);
  CHECK(all_reduce());
  show("outer call", c.comm[0]);
  CHECK(ncclGroupEnd());
  show("outer end", c.comm[0]);
}

/* AIRAMP_EMU_FAIL_CALL makes the second AllReduce or the first GroupEnd fail. */
static void failing_call(void) {
  for (int i = 0; i < 3; i++) {
    printf("call gave %d\n", all_reduce());
    show("call", c.comm[0]);
  }
}

static void failing_end(void) {
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  show("call", c.comm[0]);
  printf("end gave %d\n", ncclGroupEnd());
  show("end", c.comm[0]);
  CHECK(all_reduce());
  show("next call", c.comm[0]);
}

static void invalid_call(void) {
  printf("bad type gave %d\n", all_reduce_of(COUNT, 99));
  show("bad type", c.comm[0]);
  CHECK(all_reduce());
  show("good call", c.comm[0]);
}

/* A call that fails inside a group takes the whole group with it. */
static void invalid_call_in_a_group(void) {
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  printf("bad type gave %d\n", all_reduce_of(COUNT, 99));
  show("bad type", c.comm[0]);
  printf("end failed: %d\n", ncclGroupEnd() != 0);
  show("end", c.comm[0]);
}

static void zero_count(void) {
  CHECK(all_reduce_of(0, ncclFloat32));
  show("zero", c.comm[0]);
  CHECK(ncclGroupStart());
  CHECK(all_reduce_of(0, ncclFloat32));
  CHECK(all_reduce());
  CHECK(ncclGroupEnd());
  show("zero and one", c.comm[0]);
}

static void simulated_group(void) {
  ncclResult_t (*simulate_end)(ncclSimInfo_t *);
  ncclSimInfo_t info = NCCL_SIM_INFO;
  *(void **)&simulate_end = dlsym(RTLD_DEFAULT, "ncclGroupSimulateEnd");
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  show("call", c.comm[0]);
  CHECK(simulate_end(&info));
  show("simulated end", c.comm[0]);
  CHECK(all_reduce());
  show("next call", c.comm[0]);
}

static void captured_call(void) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(all_reduce());
  CHECK(cudaStreamSynchronize(c.stream[0]));
  show("live call", c.comm[0]);
  CHECK(cudaStreamBeginCapture(c.stream[0], cudaStreamCaptureModeThreadLocal));
  CHECK(all_reduce());
  CHECK(cudaStreamEndCapture(c.stream[0], &graph));
  show("captured call", c.comm[0]);
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, c.stream[0]));
  CHECK(cudaStreamSynchronize(c.stream[0]));
  show("three replays", c.comm[0]);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}

static void other_functions(void) {
  ncclComm_t comm = c.comm[0];
  cudaStream_t stream = c.stream[0];
  CHECK(ncclGroupStart());
  CHECK(ncclSend(c.in[0], COUNT, ncclFloat32, 0, comm, stream));
  CHECK(ncclRecv(c.out[0], COUNT, ncclFloat32, 0, comm, stream));
  CHECK(ncclGroupEnd());
  CHECK(ncclReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, 0, comm, stream));
  CHECK(ncclReduceScatter(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(ncclBroadcast(c.in[0], c.out[0], COUNT, ncclFloat32, 0, comm, stream));
  CHECK(ncclAllGather(c.in[0], c.out[0], COUNT, ncclFloat32, comm, stream));
  show("other functions", comm);
}

static void per_communicator(void) {
  int device = 0;
  CHECK(ncclCommInitAll(&other, 1, &device));
  CHECK(ncclGroupStart());
  CHECK(all_reduce());
  CHECK(ncclGroupEnd());
  CHECK(all_reduce());
  CHECK(ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, other, c.stream[0]));
  show("first", c.comm[0]);
  show("other", other);
  CHECK(cudaStreamSynchronize(c.stream[0]));
  CHECK(ncclCommDestroy(other));
  show("destroyed", other);
}

/* Bounded: an allocator gives a freed address again soon, or the emulator's
 * does not recycle and the scenario says so. */
static void recycled_address(void) {
  int device = 0, recycled = 0;
  for (int i = 0; i < 200 && !recycled; i++) {
    ncclComm_t former;
    CHECK(ncclCommInitAll(&former, 1, &device));
    CHECK(ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, former, c.stream[0]));
    CHECK(cudaStreamSynchronize(c.stream[0]));
    CHECK(ncclCommDestroy(former));
    CHECK(ncclCommInitAll(&other, 1, &device));
    recycled = other == former;
    if (recycled) show("recycled", other);
    CHECK(ncclCommDestroy(other));
  }
  printf("an address came back: %d\n", recycled);
}

static void unknown_communicators(void) {
  show("null", NULL);
  show("never made", (ncclComm_t)&c);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } scenarios[] = {
      {"outside", outside_a_group},   {"group", in_a_group},
      {"nested", in_nested_groups},   {"failing-call", failing_call},
      {"failing-end", failing_end},   {"invalid", invalid_call},
      {"invalid-in-group", invalid_call_in_a_group},
      {"zero", zero_count},           {"simulated", simulated_group},
      {"captured", captured_call},    {"others", other_functions},
      {"per-communicator", per_communicator}, {"recycled", recycled_address},
      {"unknown", unknown_communicators},
  };
  clique_open(&c, 1);
  clique_fill(&c, 1);
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    if (strcmp(scenario(argc, argv), scenarios[i].name)) continue;
    scenarios[i].run();
    clique_wait(&c);
    clique_close(&c);
    return 0;
  }
  return unknown_scenario();
}
