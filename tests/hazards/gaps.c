/* One rank whose calls come in bursts with gaps between them, until it is told by SIGUSR1 to go on; then what the
 * scenario names. A word on standard output says where it is.
 *
 *   gaps SCENARIO GAP_MS */
#include "hazard.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

enum { BURST = 4, SETTLING = 10, DENSE_MS = 500 };

static volatile sig_atomic_t told;
static struct timespec due;

static void go_on(int signal) { (void)signal; told = 1; }

static void say(const char *word) {
  printf("%s\n", word);
  fflush(stdout);
}

/* Sleeps until so long after the last time, whatever came in between: the bursts come in step. */
static void rest(long ms) {
  due.tv_nsec += ms % 1000 * 1000000;
  due.tv_sec += ms / 1000 + due.tv_nsec / 1000000000;
  due.tv_nsec %= 1000000000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {}
}

/* Calls of different sizes: equal ones could be a step of one call with an uneven pace as well. */
static void enqueue(struct clique *c) {
  for (size_t i = 0; i < BURST; i++)
    CHECK(ncclAllReduce(c->in[0], c->out[0], COUNT - 200 * i, ncclFloat32, ncclSum, c->comm[0], c->stream[0]));
}

static void burst(struct clique *c) {
  enqueue(c);
  clique_wait(c);
}

static void hold(void *ms) { usleep((useconds_t)(intptr_t)ms * 1000); }

int cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data);

/* Busy: the host is ahead of the device, which works on something else before it comes to the burst, for as long as the
   whole gap: a device that is done before its end may well be kept awake for the rest. */
static void bursts_and_gaps(struct clique *c, long gap_ms, int busy) {
  clock_gettime(CLOCK_MONOTONIC, &due);
  while (!told) {
    if (busy) CHECK(cudaLaunchHostFunc(c->stream[0], hold, (void *)(intptr_t)(gap_ms + 5)));
    enqueue(c);
    if (!busy) clique_wait(c);
    rest(gap_ms);
    if (busy) clique_wait(c);
  }
}

static void dense(struct clique *c) {
  struct timespec now, until;
  /* The first comes in time, so that a gap is expected behind it; each of the others makes that shorter. */
  for (int i = 0; i < SETTLING; i++) burst(c);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += DENSE_MS * 1000000L;
  say("dense");
  do {
    burst(c);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - until.tv_sec) * 1000000000L + now.tv_nsec - until.tv_nsec < 0);
  say("over");
}

/* A capture in the strictest mode, by which an unsafe call of any thread would be spoilt. */
static void capture(struct clique *c) {
  cudaGraph_t graph;
  /* In time, so that a gap is expected behind it. */
  burst(c);
  CHECK(cudaStreamBeginCapture(c->stream[0], 0));
  clique_enqueue(c);
  say("capturing");
  usleep(400000);
  say("over");
  CHECK(cudaStreamEndCapture(c->stream[0], &graph));
  CHECK(cudaGraphDestroy(graph));
}

static int threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks));) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void in_a_child(void) {
  pid_t child = fork();
  if (child == 0) {
    usleep(300000);
    exit(threads());
  }
  printf("child ended with %d\n", wait_for(child));
}

int main(int argc, char **argv) {
  const char *name = scenario(argc, argv);
  long gap_ms = argc > 2 ? atol(argv[2]) : 20;
  struct clique c;
  signal(SIGUSR1, go_on);
  clique_open(&c, 1);
  clique_fill(&c, 1);
  say("running");
  bursts_and_gaps(&c, gap_ms, !strcmp(name, "busy"));
  if (!strcmp(name, "exit")) exit(0);
  if (!strcmp(name, "dense")) dense(&c);
  if (!strcmp(name, "capture")) capture(&c);
  if (!strcmp(name, "fork")) in_a_child();
  print_bits("result", clique_all_reduce(&c, 2));
  clique_close(&c);
  return 0;
}
