/* dlsym with the pseudo handles, for names of NCCL and for ordinary ones. */
#include "hazard.h"

#include <fcntl.h>

static void look_up_ordinary_names(void) {
  static const char *const names[] = {"malloc", "open", "strlen", "pthread_create", "dlsym"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *by_default = dlsym(RTLD_DEFAULT, names[i]);
    void *next = dlsym(RTLD_NEXT, names[i]);
    printf("%s found %d %d\n", names[i], by_default != NULL, next != NULL);
  }
  size_t (*length)(const char *);
  *(void **)&length = dlsym(RTLD_NEXT, "strlen");
  printf("strlen gives %zu\n", length("four"));
}

/* glibc's message names the object that asked, so it shows who it took the
 * caller to be; only the part after the last slash is the same everywhere. */
static void look_up_missing_names(void) {
  static const char *const names[] = {"ncclNoSuchFunction", "no_such_function"};
  static void *const handles[] = {RTLD_DEFAULT, RTLD_NEXT};
  for (size_t n = 0; n < 2; n++) {
    for (size_t h = 0; h < 2; h++) {
      dlerror();
      void *address = dlsym(handles[h], names[n]);
      const char *message = dlerror();
      const char *tail = message ? strrchr(message, '/') : NULL;
      printf("%s: %p, %s\n", names[n], address, tail ? tail : message ? message : "no message");
      printf("asked again: %s\n", dlerror() ? "a message" : "no message");
    }
  }
}

static void call_what_was_found(const char *title, void *handle) {
  ncclResult_t (*all_reduce)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
  struct clique c;
  *(void **)&all_reduce = dlsym(handle, "ncclAllReduce");
  if (!all_reduce) {
    fprintf(stderr, "%s\n", dlerror());
    exit(98);
  }
  clique_open(&c, 2);
  clique_fill(&c, 3);
  CHECK(ncclGroupStart());
  for (int r = 0; r < 2; r++)
    CHECK(all_reduce(c.in[r], c.out[r], COUNT, ncclFloat32, ncclSum, c.comm[r], c.stream[r]));
  CHECK(ncclGroupEnd());
  clique_wait(&c);
  print_bits(title, clique_bits(&c));
  report_index(title, c.comm[0]);
  clique_close(&c);
}

int main(void) {
  look_up_ordinary_names();
  look_up_missing_names();
  call_what_was_found("default", RTLD_DEFAULT);
  call_what_was_found("next", RTLD_NEXT);
  return 0;
}
