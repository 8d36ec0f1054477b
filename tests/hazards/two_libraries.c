/* Two different NCCL libraries in one process, used in turns.
 * argv[1] and argv[2]: each holds NCCL and the CUDA runtime. */
#define NCCL_BOUND_AT_RUN_TIME
#include "hazard.h"

int main(int argc, char **argv) {
  struct clique c[2];
  void *library[2];
  if (argc < 3) return unknown_scenario();
  for (int i = 0; i < 2; i++) {
    library[i] = dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL);
    if (!library[i]) {
      fprintf(stderr, "%s\n", dlerror());
      return 98;
    }
    bind_functions(library[i], library[i]);
    clique_open(&c[i], 2);
  }
  printf("two libraries: %s\n", library[0] == library[1] ? "no" : "yes");
  for (int turn = 0; turn < 4; turn++) {
    bind_functions(library[turn % 2], library[turn % 2]);
    print_bits(turn % 2 ? "second" : "first", clique_all_reduce(&c[turn % 2], turn));
  }
  for (int i = 0; i < 2; i++) {
    bind_functions(library[i], library[i]);
    report_index(i ? "second" : "first", c[i].comm[0]);
    clique_close(&c[i]);
  }
  return 0;
}
