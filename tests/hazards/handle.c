/* NCCL through a handle, as vLLM and JAX take it.
 * argv[1]: NCCL, by name or by path; argv[2]: the CUDA runtime. */
#define NCCL_BOUND_AT_RUN_TIME
#include "hazard.h"

static void *opened(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(98);
  }
  return handle;
}

int main(int argc, char **argv) {
  struct clique c;
  ncclResult_t (*by_other_name)(int *);
  int version = 0;
  if (argc < 3) return unknown_scenario();
  void *nccl = opened(argv[1]);
  bind_functions(nccl, opened(argv[2]));
  *(void **)&by_other_name = bound(nccl, "pncclGetVersion");
  CHECK(by_other_name(&version));
  printf("version %d\n", version);
  clique_open(&c, 2);
  print_bits("through a handle", clique_all_reduce(&c, 1));
  report_index("handle", c.comm[0]);
  clique_close(&c);
  return 0;
}
