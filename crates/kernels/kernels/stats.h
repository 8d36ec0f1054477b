// What writing packets tells about its own quality, and reading about what it was given: gathered per
// thread group in shared memory, then added to device memory once per group, since many atomic additions
// to one address would take longer than the kernel. The layout of AirampStats is part of the kernels'
// interface.
#pragma once

#include "portability.h"

struct AirampStats {
    u64 saturated;
    u64 non_finite_blocks;
    double squared_error;
    double signal;
    u64 foreign;
};

// A group's counts, and whether anybody asked for them.
struct Counts {
    AirampStats* group;
    bool wanted;
};

DEVICE void begin_stats(AirampStats* group, const AirampStats* total) {
    if (total == nullptr) return;
    if (thread_in_group() == 0) *group = AirampStats{0, 0, 0.0, 0.0, 0};
    wait_for_group();
}

DEVICE void end_stats(const AirampStats* group, AirampStats* total) {
    if (total == nullptr) return;
    wait_for_group();
    if (thread_in_group() != 0) return;
    if (group->saturated != 0) add_atomically(&total->saturated, group->saturated);
    if (group->non_finite_blocks != 0) add_atomically(&total->non_finite_blocks, group->non_finite_blocks);
    if (group->squared_error != 0.0) add_atomically(&total->squared_error, group->squared_error);
    if (group->signal != 0.0) add_atomically(&total->signal, group->signal);
    if (group->foreign != 0) add_atomically(&total->foreign, group->foreign);
}
