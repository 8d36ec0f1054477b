// airamp_ghost: keeps a few warps busy for `rounds` dependent steps and touches no memory.
#include "portability.h"

// Whoever asks for more gets a kernel that still ends within a fraction of a millisecond.
constexpr u32 MOST_GHOST_ROUNDS = 1 << 16;

KERNEL(1) airamp_ghost(u32 rounds) {
    u32 word = thread_in_group();
    u32 most = smaller(rounds, MOST_GHOST_ROUNDS);
    NO_UNROLL for (u32 round = 0; round < most; ++round) {
        word = word * 1664525u + 1013904223u;
        forget(word);
    }
}
