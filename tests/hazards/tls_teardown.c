/* NCCL called while a thread's own storage is being taken down, after that of
 * any library that came later: by a pthread key and by a C++ thread_local. */
#include "hazard.h"

extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso);
extern void *__dso_handle;

static void use_and_close(void *clique) {
  struct clique *c = clique;
  int version = 0;
  CHECK(ncclGetVersion(&version));
  printf("version %d\n", version);
  print_bits("in a destructor", clique_all_reduce(c, 8));
  report_index("destructor", c->comm[0]);
  clique_close(c);
}

static pthread_key_t key;

/* Registered before NCCL is first called in this thread, so it runs last. */
static void *with_a_key(void *clique) {
  pthread_setspecific(key, clique);
  clique_open(clique, 2);
  print_bits("in the thread", clique_all_reduce(clique, 7));
  return NULL;
}

static void *with_a_thread_local(void *clique) {
  __cxa_thread_atexit_impl(use_and_close, clique, &__dso_handle);
  clique_open(clique, 2);
  print_bits("in the thread", clique_all_reduce(clique, 7));
  return NULL;
}

int main(int argc, char **argv) {
  static struct clique c;
  const char *name = scenario(argc, argv);
  pthread_t thread;
  if (!strcmp(name, "main")) {
    with_a_thread_local(&c);
    return 2;
  }
  pthread_key_create(&key, use_and_close);
  pthread_create(&thread, NULL, !strcmp(name, "key") ? with_a_key : with_a_thread_local, &c);
  pthread_join(thread, NULL);
  return 0;
}
