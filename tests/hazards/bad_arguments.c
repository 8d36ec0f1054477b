/* Arguments that no one should pass: the answer is the vendor's. */
#include "hazard.h"

static struct clique c;

static void all_reduce(const char *title, const void *in, void *out, size_t count, int type, int op,
                       ncclComm_t comm) {
  printf("%s %d\n", title, ncclAllReduce(in, out, count, type, op, comm, c.stream[0]));
}

/* NCCL need not look at buffers; what it lets pass ends on the device, for good. */
static int spoil_the_device(const char *how) {
  size_t count = !strcmp(how, "absurd count") ? (size_t)1 << 60 : COUNT;
  const float *in = !strcmp(how, "null input") ? NULL : c.in[0];
  float *out = !strcmp(how, "null output") ? NULL : c.out[0];
  all_reduce(how, in, out, count, ncclFloat32, ncclSum, c.comm[0]);
  printf("waiting gave %d\n", cudaStreamSynchronize(c.stream[0]));
  return 0;
}

int main(int argc, char **argv) {
  int number = 0;
  clique_open(&c, 1);
  clique_fill(&c, 1);
  if (argc > 1) return spoil_the_device(argv[1]);
  all_reduce("null communicator", c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, NULL);
  all_reduce("negative type", c.in[0], c.out[0], COUNT, -1, ncclSum, c.comm[0]);
  all_reduce("unknown type", c.in[0], c.out[0], COUNT, 99, ncclSum, c.comm[0]);
  all_reduce("unknown reduction", c.in[0], c.out[0], COUNT, ncclFloat32, 77, c.comm[0]);
  all_reduce("no elements", c.in[0], c.out[0], 0, ncclFloat32, ncclSum, c.comm[0]);
  printf("bad root %d\n",
         ncclBroadcast(c.in[0], c.out[0], COUNT, ncclFloat32, 7, c.comm[0], c.stream[0]));
  printf("bad peer %d\n", ncclSend(c.in[0], COUNT, ncclFloat32, 7, c.comm[0], c.stream[0]));
  printf("destroy nothing %d\n", ncclCommDestroy(NULL));
  printf("abort nothing %d\n", ncclCommAbort(NULL));
  printf("finalize nothing %d\n", ncclCommFinalize(NULL));
  printf("id to nowhere %d\n", ncclGetUniqueId(NULL));
  printf("version to nowhere %d\n", ncclGetVersion(NULL));
  printf("count of nothing %d\n", ncclCommCount(NULL, &number));
  printf("nowhere to init %d\n", ncclCommInitAll(NULL, 1, NULL));
  printf("no devices %d\n", ncclCommInitAll(c.comm + 1, 0, NULL));
  printf("unbalanced end %d\n", ncclGroupEnd());
  printf("split of nothing %d\n", ncclCommSplit(NULL, 0, 0, c.comm + 1, NULL));
  printf("%s\n", ncclGetErrorString(-5));
  print_bits("still works", clique_all_reduce(&c, 3));
  clique_close(&c);
  return 0;
}
