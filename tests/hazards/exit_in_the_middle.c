/* The process ends where no one expects it, with communicators alive. */
#include "hazard.h"

static struct clique at_the_end;

static void last_questions(void) {
  int count = 0;
  CHECK(ncclCommCount(at_the_end.comm[0], &count));
  printf("at exit %d ranks\n", count);
}

static void last_all_reduce(void) {
  print_bits("at exit", clique_all_reduce(&at_the_end, 9));
  report_index("at exit", at_the_end.comm[0]);
  clique_close(&at_the_end);
}

static int destructor_wanted;

__attribute__((destructor)) static void in_a_destructor(void) {
  if (!destructor_wanted) return;
  last_questions();
  last_all_reduce();
}

static int inside_a_group(struct clique *c) {
  CHECK(ncclGroupStart());
  clique_enqueue(c);
  exit(7);
}

/* Only one rank of two has called: its work cannot end. */
static void leave_work_in_flight(struct clique *c) {
  CHECK(cudaSetDevice(0));
  CHECK(ncclAllReduce(c->in[0], c->out[0], COUNT, ncclFloat32, ncclSum, c->comm[0], c->stream[0]));
}

static void *exit_from_here(void *clique) {
  leave_work_in_flight(clique);
  exit(3);
}

static int from_another_thread(struct clique *c) {
  pthread_t thread;
  pthread_create(&thread, NULL, exit_from_here, c);
  pthread_join(thread, NULL);
  return 95;
}

static int at_once(struct clique *c) {
  leave_work_in_flight(c);
  _exit(5);
}

int main(int argc, char **argv) {
  const char *name = scenario(argc, argv);
  struct clique *c = &at_the_end;
  /* Registered before NCCL is first touched, so it runs after whatever NCCL or
   * the library may have registered. */
  if (!strcmp(name, "atexit")) atexit(last_all_reduce), atexit(last_questions);
  destructor_wanted = !strcmp(name, "destructor");
  clique_open(c, 2);
  print_bits("result", clique_all_reduce(c, 1));
  if (!strcmp(name, "group")) return inside_a_group(c);
  if (!strcmp(name, "thread")) return from_another_thread(c);
  if (!strcmp(name, "_exit")) return at_once(c);
  if (!strcmp(name, "return")) return 4;
  if (!strcmp(name, "atexit") || destructor_wanted) return 6;
  return unknown_scenario();
}
