/* A plugin that has NCCL among its needed libraries. */
#include "hazard.h"

__attribute__((visibility("default"))) void plugin_run(int seed) {
  struct clique c;
  clique_open(&c, 2);
  print_bits("plugin", clique_all_reduce(&c, seed));
  report_index("plugin", c.comm[0]);
  clique_close(&c);
}
