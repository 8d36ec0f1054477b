/* Eight threads, each with two devices, communicators and groups of its own.
 * Two communicators on the same devices, used from two threads, may block each
 * other in any NCCL, so no two threads share a device: it takes 16. */
#include "hazard.h"

enum { THREADS = 8, ROUNDS = 20 };

struct worker {
  int number;
  uint64_t bits;
  char index_room[48];
  const char *index;
};

static void *work(void *argument) {
  struct worker *worker = argument;
  struct clique first, second;
  int device = worker->number * 2;
  clique_open_at(&first, 2, device);
  for (int round = 0; round < ROUNDS; round++) {
    clique_open_at(&second, 2, device);
    clique_fill(&first, worker->number + round);
    clique_fill(&second, worker->number * round);
    CHECK(ncclGroupStart());
    clique_enqueue(&first);
    clique_enqueue(&second);
    CHECK(ncclGroupEnd());
    clique_wait(&first);
    clique_wait(&second);
    worker->bits = worker->bits * 31 + clique_bits(&first) + clique_bits(&second);
    clique_close(&second);
  }
  worker->index = index_text(first.comm[0], worker->index_room);
  clique_close(&first);
  return NULL;
}

int main(void) {
  struct worker workers[THREADS] = {0};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i;
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    print_bits("thread", workers[i].bits);
    fprintf(stderr, "thread index %s\n", workers[i].index);
  }
  return 0;
}
