/* The few functions of NCCL and of the CUDA runtime that the programs of
 * tests/hazards call, declared after their public ABI. With
 * NCCL_BOUND_AT_RUN_TIME they are pointers that `bind_functions` fills by dlsym,
 * so that one text serves linked programs and those that load NCCL themselves. */
#ifndef AIRAMP_TESTS_NCCL_ABI_H
#define AIRAMP_TESTS_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef int ncclResult_t;
typedef int cudaError_t;

enum { ncclInt8 = 0, ncclInt32 = 2, ncclFloat32 = 7 };
enum { ncclSum = 0, ncclAvg = 4 };
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum { cudaStreamCaptureModeThreadLocal = 1 };

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimated_time;
} ncclSimInfo_t;

#define NCCL_SIM_INFO { sizeof(ncclSimInfo_t), 0x74685283u, 22200, -1.0f }

/* The head of ncclConfig_t as it was in 2.18, which newer versions accept. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char *net_name;
  int split_share;
} ncclConfig_t;

#define NCCL_CONFIG \
  { sizeof(ncclConfig_t), 0xcafebeefu, 21800, INT_MIN, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN }

#define NCCL_FUNCTIONS(F)                                                                         \
  F(ncclResult_t, ncclGetVersion, (int *version))                                                 \
  F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *id))                                            \
  F(const char *, ncclGetErrorString, (ncclResult_t result))                                      \
  F(const char *, ncclGetLastError, (ncclComm_t comm))                                            \
  F(ncclResult_t, ncclCommInitRank, (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank))     \
  F(ncclResult_t, ncclCommInitRankConfig,                                                         \
    (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))               \
  F(ncclResult_t, ncclCommInitAll, (ncclComm_t *comms, int devices, const int *list))             \
  F(ncclResult_t, ncclCommSplit,                                                                  \
    (ncclComm_t comm, int colour, int key, ncclComm_t *child, ncclConfig_t *config))              \
  F(ncclResult_t, ncclCommCount, (ncclComm_t comm, int *count))                                   \
  F(ncclResult_t, ncclCommUserRank, (ncclComm_t comm, int *rank))                                 \
  F(ncclResult_t, ncclCommCuDevice, (ncclComm_t comm, int *device))                               \
  F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))                  \
  F(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                                            \
  F(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                                             \
  F(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                                               \
  F(ncclResult_t, ncclGroupStart, (void))                                                         \
  F(ncclResult_t, ncclGroupEnd, (void))                                                           \
  F(ncclResult_t, ncclAllReduce,                                                                  \
    (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm,                  \
     cudaStream_t stream))                                                                        \
  F(ncclResult_t, ncclReduce,                                                                     \
    (const void *in, void *out, size_t count, int type, int op, int root, ncclComm_t comm,        \
     cudaStream_t stream))                                                                        \
  F(ncclResult_t, ncclReduceScatter,                                                              \
    (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm,                  \
     cudaStream_t stream))                                                                        \
  F(ncclResult_t, ncclBroadcast,                                                                  \
    (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm,                \
     cudaStream_t stream))                                                                        \
  F(ncclResult_t, ncclAllGather,                                                                  \
    (const void *in, void *out, size_t count, int type, ncclComm_t comm, cudaStream_t stream))    \
  F(ncclResult_t, ncclSend,                                                                       \
    (const void *in, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream))     \
  F(ncclResult_t, ncclRecv,                                                                       \
    (void *out, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream))

#define CUDA_FUNCTIONS(F)                                                                  \
  F(cudaError_t, cudaGetDeviceCount, (int *count))                                         \
  F(cudaError_t, cudaSetDevice, (int device))                                              \
  F(cudaError_t, cudaMalloc, (void **pointer, size_t bytes))                               \
  F(cudaError_t, cudaFree, (void *pointer))                                                \
  F(cudaError_t, cudaMemcpy, (void *to, const void *from, size_t bytes, int kind))         \
  F(cudaError_t, cudaStreamCreate, (cudaStream_t *stream))                                 \
  F(cudaError_t, cudaStreamDestroy, (cudaStream_t stream))                                 \
  F(cudaError_t, cudaStreamSynchronize, (cudaStream_t stream))                             \
  F(cudaError_t, cudaStreamBeginCapture, (cudaStream_t stream, int mode))                  \
  F(cudaError_t, cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph))          \
  F(cudaError_t, cudaGraphInstantiate,                                                     \
    (cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags))            \
  F(cudaError_t, cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream))       \
  F(cudaError_t, cudaGraphExecDestroy, (cudaGraphExec_t executable))                       \
  F(cudaError_t, cudaGraphDestroy, (cudaGraph_t graph))

#ifdef NCCL_BOUND_AT_RUN_TIME

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define DECLARE_POINTER(result, name, parameters) static result(*name) parameters;
NCCL_FUNCTIONS(DECLARE_POINTER)
CUDA_FUNCTIONS(DECLARE_POINTER)

static inline void *bound(void *handle, const char *name) {
  void *address = dlsym(handle, name);
  if (!address) {
    fprintf(stderr, "%s\n", dlerror());
    exit(98);
  }
  return address;
}

static inline void bind_functions(void *nccl, void *cuda) {
#define BIND_NCCL(result, name, parameters) *(void **)&name = bound(nccl, #name);
#define BIND_CUDA(result, name, parameters) *(void **)&name = bound(cuda, #name);
  NCCL_FUNCTIONS(BIND_NCCL)
  CUDA_FUNCTIONS(BIND_CUDA)
}

#else

#define DECLARE_FUNCTION(result, name, parameters) result name parameters;
NCCL_FUNCTIONS(DECLARE_FUNCTION)
CUDA_FUNCTIONS(DECLARE_FUNCTION)

#endif

#endif
