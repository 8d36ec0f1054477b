/* Calls the exported function of that name with nothing but zeros, between two calls that show
 * that the process is well, and prints what each returns.
 *
 *   zero_call NAME */
#include "hazard.h"

typedef ncclResult_t (*words_function)(long, long, long, long, long, long, long, long, long);
typedef ncclResult_t (*id_function)(void *, int, ncclUniqueId, int, void *);

static ncclResult_t call(const char *name) {
  static const ncclUniqueId nothing;
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) return -1;
  if (strstr(name, "InitRankConfig") || (strstr(name, "InitRank") && !strstr(name, "Scalable")))
    return ((id_function)function)(NULL, 0, nothing, 0, NULL);
  return ((words_function)function)(0, 0, 0, 0, 0, 0, 0, 0, 0);
}

int main(int argc, char **argv) {
  struct clique c;
  if (argc < 2) return 96;
  clique_open(&c, 1);
  print_bits("before", clique_all_reduce(&c, 1));
  printf("%s %d\n", argv[1], call(argv[1]));
  if (strstr(argv[1], "GroupStart")) printf("end %d\n", ncclGroupEnd());
  print_bits("after", clique_all_reduce(&c, 2));
  clique_close(&c);
  return 0;
}
