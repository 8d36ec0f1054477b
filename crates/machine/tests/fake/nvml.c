/* A stand-in for libnvidia-ml.so: two devices, whose state is a word in a file that the test rewrites.
 * "well"         both answer everything
 * "second-lost"  device 1 has fallen off the bus
 * "bare"         only what every device knows is supported
 * "hanging"      the power of device 0 is never told, until the word changes
 * "no-driver"    the library does not start
 * "shut"         it starts, and then says that it was not started
 * "xid"          device 0 has one Xid waiting, once */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_LOST = 15 };

struct device { unsigned index; };
static struct device devices[2] = {{0}, {1}};
static int sets_made;
static struct device *watched[8];

static int state_is(const char *word) {
  char read[32] = "";
  FILE *file = fopen(STATE, "r");
  if (file) {
    if (!fgets(read, sizeof read, file)) read[0] = 0;
    fclose(file);
  }
  return strcmp(read, word) == 0;
}

static int state_of(const struct device *device) {
  if (device->index == 1 && state_is("second-lost")) return GPU_LOST;
  return SUCCESS;
}

/* What not every device can say. */
static int rare(const struct device *device) {
  return state_is("bare") ? NOT_SUPPORTED : state_of(device);
}

int nvmlInit_v2(void) { return state_is("no-driver") ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 2;
  return state_is("shut") ? UNINITIALIZED : SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
  *device = &devices[index];
  return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *device, char *text, unsigned length) {
  snprintf(text, length, "GPU-0000000%u", device->index);
  return state_of(device);
}

int nvmlDeviceGetName(struct device *device, char *text, unsigned length) {
  snprintf(text, length, "Fake %u", device->index);
  return state_of(device);
}

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory *memory) {
  memory->total = 1000, memory->reserved = 100, memory->free = 600, memory->used = 300 + device->index;
  return state_of(device);
}

int nvmlDeviceGetClockInfo(struct device *device, int which, unsigned *megahertz) {
  *megahertz = which == 1 ? 1410 : which == 2 ? 2619 : 1;
  return rare(device);
}

int nvmlDeviceGetPowerUsage(struct device *device, unsigned *milliwatts) {
  while (device->index == 0 && state_is("hanging")) usleep(10000);
  *milliwatts = 123456;
  return rare(device);
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *milliwatts) {
  *milliwatts = 700000;
  return rare(device);
}

int nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned *degrees) {
  *degrees = sensor == 0 ? 61 : 0;
  return state_of(device);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *bits) {
  *bits = 0x4 | 0x40 | 0x8000000; /* power cap, heat, and one that nobody knows yet */
  return rare(device);
}

int nvmlDeviceGetTotalEccErrors(struct device *device, int kind, int counter, unsigned long long *count) {
  *count = counter == 0 ? (kind == 0 ? 5 : 1) : 99;
  return rare(device);
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *rates) {
  rates->gpu = 87, rates->memory = 40;
  return rare(device);
}

int nvmlDeviceGetPcieReplayCounter(struct device *device, unsigned *count) {
  *count = 3;
  return rare(device);
}

int nvmlDeviceGetNvLinkState(struct device *device, unsigned link, int *active) {
  if (link >= 4) return 2;
  *active = link != 2;
  return rare(device);
}

struct field {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  union { unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } value;
};
int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields) {
  for (int i = 0; i < count; i++) {
    fields[i].result = SUCCESS;
    fields[i].type = 3;
    switch (fields[i].field) {
      case 138: fields[i].value.ull = fields[i].scope == ~0u ? 10 : 1; break;
      case 139: fields[i].value.ull = fields[i].scope == ~0u ? 20 : 1; break;
      case 197: fields[i].type = 2, fields[i].value.ul = 5000000000ul; break;
      case 198: fields[i].result = NOT_SUPPORTED; break;
      case 38: fields[i].type = 1, fields[i].value.ui = 7; break;
      case 45: fields[i].result = NOT_SUPPORTED; break;
      case 52: fields[i].value.ull = 4; break;
      default: fields[i].type = 77; break; /* a type that nobody knows yet */
    }
  }
  return rare(device);
}

int nvmlEventSetCreate(void **set) {
  *set = &watched[sets_made++ % 8];
  return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, void *set) {
  if (types != 8 || device->index == 1) return NOT_SUPPORTED;
  *(struct device **)set = device;
  return SUCCESS;
}

int nvmlEventSetFree(void *set) {
  (void)set;
  return SUCCESS;
}

struct event { struct device *device; unsigned long long type, data; unsigned gpu, compute; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
  static int told;
  if (!state_is("xid") || told++) {
    usleep(timeout_ms * 1000);
    return TIMEOUT;
  }
  event->device = *(struct device **)set;
  event->type = 8, event->data = 79;
  return SUCCESS;
}
