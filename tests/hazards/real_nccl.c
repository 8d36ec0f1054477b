/* Asks the real NCCL all that it answers on a machine without a GPU. The
 * Python twin of this program is real_nccl.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "nccl_abi.h"

static void ask_for_an_id(void) {
  struct {
    ncclUniqueId id;
    char beyond[32];
  } room;
  memset(&room, 0x5a, sizeof room);
  printf("id %d ", ncclGetUniqueId(&room.id));
  int magic_is_set = 0, beyond_is_kept = 1;
  for (int i = 0; i < 8; i++) magic_is_set |= room.id.internal[i] != 0;
  for (size_t i = 0; i < sizeof room.beyond; i++) beyond_is_kept &= room.beyond[i] == 0x5a;
  /* Bytes 10 and 11 are a port of the moment. */
  for (int i = 8; i < 128; i++) {
    if (i != 10 && i != 11) printf("%02x", (unsigned char)room.id.internal[i]);
  }
  printf(" magic %d, beyond %d\n", magic_is_set, beyond_is_kept);
}

static void ask_for_parameters(void) {
  ncclResult_t (*keys_of)(const char ***, int *);
  ncclResult_t (*value_of)(const char *, const char **, int *);
  const char **keys = NULL, *value = NULL;
  int count = 0, length = 0;
  *(void **)&keys_of = dlsym(RTLD_DEFAULT, "ncclParamGetAllParameterKeys");
  *(void **)&value_of = dlsym(RTLD_DEFAULT, "ncclParamGetParameter");
  printf("keys %d ", keys_of(&keys, &count));
  for (int i = 0; i < count; i++) printf("%s ", keys[i]);
  int result = value_of("NCCL_DEBUG", &value, &length);
  printf("value %d %s %d\n", result, value ? value : "none", length);
  value = NULL;
  printf("no such value %d\n", value_of("NCCL_NO_SUCH_PARAMETER", &value, &length));
}

static void ask_for_a_communicator(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int count = 0;
  memset(&id, 0, sizeof id);
  ncclGetUniqueId(&id);
  printf("init %d ", ncclCommInitRank(&comm, 1, id, 0));
  printf("%p last error %s\n", (void *)comm, ncclGetLastError(NULL));
  printf("bad rank %d\n", ncclCommInitRank(&comm, 1, id, 5));
  printf("null %d %d %d\n", ncclCommCount(NULL, &count), ncclCommDestroy(NULL), ncclGetVersion(NULL));
  printf("reduce on null %d\n", ncclAllReduce(NULL, NULL, 1, ncclFloat32, ncclSum, NULL, NULL));
}

int main(void) {
  int version = 0;
  int result = ncclGetVersion(&version);
  printf("version %d %d\n", result, version);
  for (int code = -1; code < 12; code++) printf("%d %s\n", code, ncclGetErrorString(code));
  ask_for_an_id();
  printf("group %d", ncclGroupStart());
  printf(" %d", ncclGroupStart());
  printf(" %d", ncclGroupEnd());
  printf(" %d\n", ncclGroupEnd());
  printf("unbalanced %d\n", ncclGroupEnd());
  ask_for_parameters();
  ask_for_a_communicator();
  return 0;
}
