/* A preloaded library whose clocks are not as they should be: after CHAOS_AFTER_MS of the process's life the time of day
 * jumps by CHAOS_DAY_JUMPS_S seconds, and the monotonic clock leaps ahead by CHAOS_LEAP_MS. Asks the kernel itself, so that
 * it needs no other function to be found. Processor counters are as they are. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long number(const char *name) {
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

static long long nanoseconds(clockid_t clock) {
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long began, after, day, leap;

__attribute__((constructor)) static void begin(void) {
    after = number("CHAOS_AFTER_MS") * 1000000LL;
    day = number("CHAOS_DAY_JUMPS_S") * 1000000000LL;
    leap = number("CHAOS_LEAP_MS") * 1000000LL;
    began = nanoseconds(CLOCK_MONOTONIC);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    long result = syscall(SYS_clock_gettime, clock, out);
    if (result != 0 || began == 0 || nanoseconds(CLOCK_MONOTONIC) - began < after) return (int)result;
    long long ahead = clock == CLOCK_REALTIME ? day : clock == CLOCK_MONOTONIC ? leap : 0;
    long long now = out->tv_sec * 1000000000LL + out->tv_nsec + ahead;
    out->tv_sec = now / 1000000000LL;
    out->tv_nsec = now % 1000000000LL;
    return 0;
}
