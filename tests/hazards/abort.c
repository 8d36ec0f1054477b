/* ncclCommAbort from another thread while a call of this one is blocked. */
#include "hazard.h"

static struct clique c;
static volatile int call_result;
static pthread_barrier_t about_to_block;

static void *call_alone(void *unused) {
  (void)unused;
  CHECK(cudaSetDevice(0));
  pthread_barrier_wait(&about_to_block);
  call_result =
      ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, c.comm[0], c.stream[0]);
  return NULL;
}

static void *wait_alone(void *unused) {
  (void)unused;
  CHECK(cudaSetDevice(0));
  CHECK(ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, c.comm[0], c.stream[0]));
  pthread_barrier_wait(&about_to_block);
  call_result = cudaStreamSynchronize(c.stream[0]);
  return NULL;
}

/* As a watchdog finds it: calls are made ahead of a peer that never comes, until the device's queue is full. */
static volatile int is_ending, calls_made;

static void *call_ahead(void *unused) {
  (void)unused;
  CHECK(cudaSetDevice(0));
  pthread_barrier_wait(&about_to_block);
  for (int i = 0; i < 1000 && !is_ending && !call_result; i++, calls_made++)
    call_result =
        ncclAllReduce(c.in[0], c.out[0], COUNT, ncclFloat32, ncclSum, c.comm[0], c.stream[0]);
  return NULL;
}

static void wait_until_full(void) {
  for (int before = -1; before != calls_made;) {
    before = calls_made;
    usleep(500000);
  }
}

static int abort_when_full(void) {
  pthread_t thread;
  pthread_barrier_init(&about_to_block, NULL, 2);
  pthread_create(&thread, NULL, call_ahead, NULL);
  pthread_barrier_wait(&about_to_block);
  wait_until_full();
  is_ending = 1;
  printf("abort gave %d\n", ncclCommAbort(c.comm[0]));
  pthread_join(thread, NULL);
  printf("abort gave %d\n", ncclCommAbort(c.comm[1]));
  return 0;
}

static int abort_while(void *(*blocked)(void *)) {
  pthread_t thread;
  pthread_barrier_init(&about_to_block, NULL, 2);
  pthread_create(&thread, NULL, blocked, NULL);
  pthread_barrier_wait(&about_to_block);
  usleep(100000);
  printf("abort gave %d\n", ncclCommAbort(c.comm[0]));
  pthread_join(thread, NULL);
  printf("the blocked call gave %d\n", call_result);
  report_index("aborted", c.comm[0]);
  printf("abort gave %d\n", ncclCommAbort(c.comm[1]));
  return 0;
}

int main(int argc, char **argv) {
  const char *name = scenario(argc, argv);
  clique_open(&c, 2);
  clique_fill(&c, 1);
  /* The first use of an algorithm blocks the caller until the peer comes. */
  if (!strcmp(name, "call")) return abort_while(call_alone);
  print_bits("connected", clique_all_reduce(&c, 1));
  if (!strcmp(name, "wait")) return abort_while(wait_alone);
  if (!strcmp(name, "full")) return abort_when_full();
  return unknown_scenario();
}
