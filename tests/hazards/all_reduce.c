/* The plainest user of NCCL, for builds and environments that are the hazard. */
#include "hazard.h"

int main(void) {
  struct clique c;
  int version = 0;
  CHECK(ncclGetVersion(&version));
  printf("version %d\n", version);
  clique_open(&c, 2);
  for (int seed = 0; seed < 3; seed++) print_bits("result", clique_all_reduce(&c, seed));
  printf("a bad type gives %d\n",
         ncclAllReduce(c.in[0], c.out[0], COUNT, 99, ncclSum, c.comm[0], c.stream[0]));
  report_index("plain", c.comm[0]);
  clique_close(&c);
  return 0;
}
