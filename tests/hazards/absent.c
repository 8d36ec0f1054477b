/* Which functions look present, to a program that asks before it calls.
 * argv[1]: NCCL by name or path, or "default" for the pseudo handle. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  static const char *const names[] = {
      "ncclGetVersion",      "ncclAllReduce",        "ncclCommSplit",
      "ncclGroupSimulateEnd", "ncclCommInitRankScalable", "ncclCommShrink",
      "ncclCommRevoke",      "ncclCommGrow",         "ncclAllReduceConfig",
      "ncclParamGet",        "pncclCommShrink",      "pncclAllReduce",
      "ncclNeverThere",
  };
  if (argc < 2) return 96;
  void *handle = strcmp(argv[1], "default") ? dlopen(argv[1], RTLD_NOW) : RTLD_DEFAULT;
  if (!handle && strcmp(argv[1], "default")) {
    fprintf(stderr, "%s\n", dlerror());
    return 98;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    dlerror();
    int found = dlsym(handle, names[i]) != NULL;
    printf("%s %s, dlerror %s\n", names[i], found ? "present" : "absent",
           dlerror() ? "speaks" : "is silent");
  }
  return 0;
}
