/* An NVML that says of any device what AIRAMP_TEST_NVML names: "work" that it computes all the time, "heat" that heat
 * slows it down, "shared" that two processes compute on it; nothing else is wrong with it. */
#include <stdlib.h>
#include <string.h>

static int is(const char *what) {
  const char *said = getenv("AIRAMP_TEST_NVML");
  return said && !strcmp(said, what);
}

struct used { unsigned device, memory; };

int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetHandleByUUID(const char *name, void **device) {
  *device = (void *)name;
  return strncmp(name, "GPU-", 4) != 0;
}

int nvmlDeviceGetUtilizationRates(void *device, struct used *used) {
  (void)device;
  used->device = is("work") ? 97 : 40;
  used->memory = 0;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  (void)device;
  *reasons = is("heat") ? 0x40 : 0x1;
  return 0;
}

/* With room for none: their number alone. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes) {
  (void)device, (void)processes;
  *count = is("shared") ? 2 : 1;
  return 7;
}
