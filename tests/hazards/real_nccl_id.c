/* Prints an id to the last bit; NCCL_COMM_ID makes it the same every time. */
#include <stdio.h>

#include "nccl_abi.h"

int main(void) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != 0) return 99;
  for (int i = 0; i < 128; i++) printf("%02x", (unsigned char)id.internal[i]);
  printf("\n");
  return 0;
}
