// The kernels' threads on a CPU, for tests: each is a fibre with a stack of its own, and they take turns.
// A lane that exchanges a value puts it into a slot and lets the others run until its warp is there. When
// one waits, the first in the order asked for goes on that can: a kernel that leaves out a wait it needs gives
// other bits in one of them.
// Included by portability.h in place of a GPU's own names.
#pragma once

#include <cmath>
#include <cstring>

#define DEVICE inline
#define KERNEL(groups) extern "C" void
// One group runs at a time, in the thread that launched it.
#define SHARED static thread_local

enum Turns : u32 { FORWARD, BACKWARD, SHUFFLED };

u32 thread_in_group();
u32 threads_in_group();
u32 group_in_grid();
u32 groups_in_grid();
void wait_for_group();
void wait_for_warp();
// The value that lane `lane` of one's own warp gives, when all its lanes have given theirs.
u32 value_of_lane(u32 value, u32 lane);
bool any_in_warp(bool value);
u32 votes_in_warp(bool value);

template <int MASK> DEVICE u32 exchange(u32 value) {
    return value_of_lane(value, (thread_in_group() % WARP) ^ MASK);
}
template <int LANE> DEVICE u32 from_lane(u32 value) {
    return value_of_lane(value, ((thread_in_group() % WARP) & 16) | LANE);
}
template <class Number> DEVICE void add_atomically(Number* sum, Number value) { *sum += value; }

// Every second lane copies at once and the others when they have to wait for it, in the next warp the other way
// round, so that a place that is read too early or written too early shows.
void begin_copy(u8* shared, const u8* from, bool wanted);
void end_of_copies();
void wait_for_all_copies_but(u32 latest);
template <int LEFT> DEVICE void wait_for_copies() { wait_for_all_copies_but(LEFT); }

DEVICE u32 bits_of(float value) {
    u32 bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
DEVICE float float_of(u32 bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
DEVICE u32 bits_set(u32 value) { return __builtin_popcount(value); }
DEVICE float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
