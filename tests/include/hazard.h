/* What the programs of tests/hazards share: a clique of ranks inside one
 * process whose results are printed bit for bit on standard output, and a view
 * of the interposer's call index, printed on standard error because a run
 * without the library has none. */
#ifndef AIRAMP_TESTS_HAZARD_H
#define AIRAMP_TESTS_HAZARD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_abi.h"

#define CHECK(call)                                                                    \
  do {                                                                                 \
    int check_result = (call);                                                         \
    if (check_result != 0) {                                                           \
      fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, check_result); \
      _exit(99);                                                                       \
    }                                                                                  \
  } while (0)

enum { MOST_RANKS = 8, COUNT = 1003 };

struct clique {
  int ranks;
  int first_device;
  ncclComm_t comm[MOST_RANKS];
  cudaStream_t stream[MOST_RANKS];
  float *in[MOST_RANKS];
  float *out[MOST_RANKS];
};

static inline void clique_open_at(struct clique *c, int ranks, int first_device) {
  int devices[MOST_RANKS] = {0};
  c->ranks = ranks;
  c->first_device = first_device;
  for (int r = 0; r < ranks; r++) devices[r] = first_device + r;
  CHECK(ncclCommInitAll(c->comm, ranks, devices));
  for (int r = 0; r < ranks; r++) {
    CHECK(cudaSetDevice(devices[r]));
    CHECK(cudaStreamCreate(&c->stream[r]));
    CHECK(cudaMalloc((void **)&c->in[r], COUNT * sizeof(float)));
    CHECK(cudaMalloc((void **)&c->out[r], COUNT * sizeof(float)));
  }
}

static inline void clique_open(struct clique *c, int ranks) { clique_open_at(c, ranks, 0); }

/* Values that no sum reproduces by accident. */
static inline void clique_fill(struct clique *c, int seed) {
  float host[COUNT];
  for (int r = 0; r < c->ranks; r++) {
    for (int i = 0; i < COUNT; i++) host[i] = (float)(seed + 1) / (float)(i + 3 * r + 7);
    CHECK(cudaSetDevice(c->first_device + r));
    CHECK(cudaMemcpy(c->in[r], host, sizeof host, cudaMemcpyHostToDevice));
  }
}

static inline void clique_enqueue(struct clique *c) {
  for (int r = 0; r < c->ranks; r++) {
    CHECK(cudaSetDevice(c->first_device + r));
    CHECK(ncclAllReduce(c->in[r], c->out[r], COUNT, ncclFloat32, ncclSum, c->comm[r], c->stream[r]));
  }
}

static inline void clique_wait(struct clique *c) {
  for (int r = 0; r < c->ranks; r++) {
    CHECK(cudaSetDevice(c->first_device + r));
    CHECK(cudaStreamSynchronize(c->stream[r]));
  }
}

/* FNV-1a over the bits of every rank's result. */
static inline uint64_t clique_bits(struct clique *c) {
  unsigned char host[COUNT * sizeof(float)];
  uint64_t hash = 0xcbf29ce484222325u;
  for (int r = 0; r < c->ranks; r++) {
    CHECK(cudaSetDevice(c->first_device + r));
    CHECK(cudaMemcpy(host, c->out[r], sizeof host, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof host; i++) hash = (hash ^ host[i]) * 0x100000001b3u;
  }
  return hash;
}

static inline uint64_t clique_all_reduce(struct clique *c, int seed) {
  clique_fill(c, seed);
  CHECK(ncclGroupStart());
  clique_enqueue(c);
  CHECK(ncclGroupEnd());
  clique_wait(c);
  return clique_bits(c);
}

static inline void print_bits(const char *title, uint64_t bits) {
  printf("%s %016llx\n", title, (unsigned long long)bits);
  fflush(stdout);
}

static inline void clique_close(struct clique *c) {
  for (int r = 0; r < c->ranks; r++) {
    CHECK(cudaSetDevice(c->first_device + r));
    CHECK(ncclCommDestroy(c->comm[r]));
    CHECK(cudaFree(c->in[r]));
    CHECK(cudaFree(c->out[r]));
    CHECK(cudaStreamDestroy(c->stream[r]));
  }
}

typedef int (*call_index_function)(ncclComm_t, unsigned long long *, unsigned long long *);

/* "unknown", or "reserved/committed"; "no library" where there is none. */
static inline const char *index_text(ncclComm_t comm, char text[48]) {
  unsigned long long reserved = 0, committed = 0;
  call_index_function call_index;
  *(void **)&call_index = dlsym(RTLD_DEFAULT, "airampCallIndex");
  if (!call_index) return "no library";
  if (call_index(comm, &reserved, &committed) != 0) return "unknown";
  snprintf(text, 48, "%llu/%llu", reserved, committed);
  return text;
}

static inline void report_index(const char *title, ncclComm_t comm) {
  char text[48];
  fprintf(stderr, "%s index %s\n", title, index_text(comm, text));
}

static inline int wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) _exit(97);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline const char *scenario(int argc, char **argv) { return argc > 1 ? argv[1] : ""; }

static inline int unknown_scenario(void) {
  fprintf(stderr, "no such scenario\n");
  return 96;
}

#endif
