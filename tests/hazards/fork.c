/* A process that forks while it uses NCCL, as data loaders and launchers do. */
#include "hazard.h"

static void finish_child(int code) {
  fflush(stdout);
  exit(code);
}

static void in_a_child(int (*body)(struct clique *), struct clique *c) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) finish_child(body(c));
  printf("child ended with %d\n", wait_for(child));
}

static int nothing(struct clique *c) {
  (void)c;
  return 3;
}

/* What CUDA leaves to a child after its parent has used it is the vendor's
 * affair: its answers are printed, not judged. */
static int plain_questions(struct clique *c) {
  int version = 0;
  report_index("inherited", c->comm[0]);
  CHECK(ncclGetVersion(&version));
  printf("version %d, %s\n", version, ncclGetErrorString(4));
  return 4;
}

static int own_clique(struct clique *c) {
  struct clique own;
  (void)c;
  clique_open(&own, 2);
  print_bits("in the child", clique_all_reduce(&own, 5));
  report_index("own", own.comm[0]);
  clique_close(&own);
  return 5;
}

static int in_the_parents_group(struct clique *c) {
  report_index("inherited", c->comm[0]);
  return 6;
}

/* The parent has asked NCCL something but made no communicator: the child may
 * then start afresh, and so may the parent afterwards. */
static int afresh(void) {
  struct clique c;
  int version = 0;
  CHECK(ncclGetVersion(&version));
  in_a_child(own_clique, NULL);
  clique_open(&c, 2);
  print_bits("in the parent", clique_all_reduce(&c, 6));
  clique_close(&c);
  return 0;
}

static int while_alive(int (*body)(struct clique *)) {
  struct clique c;
  clique_open(&c, 2);
  print_bits("before", clique_all_reduce(&c, 1));
  in_a_child(body, &c);
  print_bits("after", clique_all_reduce(&c, 2));
  report_index("parent", c.comm[0]);
  clique_close(&c);
  return 0;
}

static int in_a_group(void) {
  struct clique c;
  clique_open(&c, 2);
  clique_fill(&c, 4);
  CHECK(ncclGroupStart());
  clique_enqueue(&c);
  in_a_child(in_the_parents_group, &c);
  CHECK(ncclGroupEnd());
  clique_wait(&c);
  print_bits("after", clique_bits(&c));
  report_index("parent", c.comm[0]);
  clique_close(&c);
  return 0;
}

int main(int argc, char **argv) {
  const char *name = scenario(argc, argv);
  if (!strcmp(name, "afresh")) return afresh();
  if (!strcmp(name, "untouched")) return while_alive(nothing);
  if (!strcmp(name, "questions")) return while_alive(plain_questions);
  if (!strcmp(name, "own")) return while_alive(own_clique);
  if (!strcmp(name, "group")) return in_a_group();
  return unknown_scenario();
}
