/* NCCL is opened, used, closed and opened again. argv[1]: NCCL; argv[2]: the
 * CUDA runtime, which stays. */
#define NCCL_BOUND_AT_RUN_TIME
#include "hazard.h"

int main(int argc, char **argv) {
  if (argc < 3) return unknown_scenario();
  void *cuda = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  for (int round = 0; round < 3; round++) {
    struct clique c;
    void *nccl = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!nccl || !cuda) {
      fprintf(stderr, "%s\n", dlerror());
      return 98;
    }
    bind_functions(nccl, cuda);
    clique_open(&c, 2);
    print_bits("round", clique_all_reduce(&c, round));
    clique_close(&c);
    printf("closed with %d\n", dlclose(nccl));
  }
  return 0;
}
