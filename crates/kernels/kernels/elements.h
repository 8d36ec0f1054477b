// A tile's elements as the lanes hold them: the words of memory, whatever the type, and their way from
// and to a user's buffer. 16 bytes at a time where the buffer's alignment and the packet's end allow it, else
// element by element by way of shared memory; beyond the end elements are +0.
#pragma once

#include "tile.h"

template <class Element> struct LaneElements {
    typedef ::Layout<Element> Layout;
    u32 of[HELD_BLOCKS][Layout::WORDS];

    DEVICE float value(int held, int i) const {
        u32 word = of[held][i / Layout::PER_WORD];
        if constexpr (Layout::PER_WORD == 1) return Element::widen(word);
        else return i % 2 == 0 ? Element::widen(word & 0xffffu) : Element::widen_upper(word);
    }
    DEVICE u32 magnitude_bits(int held, int i) const {
        u32 word = of[held][i / Layout::PER_WORD];
        if constexpr (Layout::PER_WORD == 1) return word & 0x7fffffffu;
        else return (i % 2 == 0 ? word : word >> 16) & 0x7fffu;
    }
    DEVICE void set(int held, int i, u32 bits) {
        u32& word = of[held][i / Layout::PER_WORD];
        if constexpr (Layout::PER_WORD == 1) word = bits;
        else word = i % 2 == 0 ? (word & 0xffff0000u) | bits : (word & 0xffffu) | (bits << 16);
    }
    // The same words, of which the compiler knows nothing: what it has computed from them already need not
    // be kept for a branch that is hardly ever taken.
    DEVICE LaneElements forgotten() const {
        LaneElements copy = *this;
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int w = 0; w < Layout::WORDS; ++w) forget(copy.of[held][w]);
        return copy;
    }
    // The run of 16 bytes.
    DEVICE Words4 run(int held, int number) const {
        const u32* first = &of[held][4 * number];
        return Words4{{first[0], first[1], first[2], first[3]}};
    }
    DEVICE void set_run(int held, int number, const Words4& words) {
        UNROLL for (int w = 0; w < 4; ++w) of[held][4 * number + w] = words.of[w];
    }
};

// Two blocks per warp: what its lanes hold of one block each.
template <class Element> struct Staging {
    alignas(16) typename Element::Bits of[GROUP / WARP][2 * BLOCK];

    DEVICE typename Element::Bits* own() { return of[thread_in_group() / WARP]; }
};

template <class Element>
DEVICE void load_elements(const typename Element::Bits* start, const Tile& tile, Staging<Element>& staging,
                          LaneElements<Element>& x) {
    typedef Layout<Element> Layout;
    if (tile.is_whole() && is_aligned(start)) {
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int run = 0; run < Layout::RUNS; ++run) {
                const auto* from = start + tile.block(held) * BLOCK + Layout::run_at(run);
                x.set_run(held, run, load((const Words4*)from));
            }
        return;
    }
    typename Element::Bits* staged = staging.own();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        NO_UNROLL for (u32 i = lane_in_warp(); i < 2 * BLOCK; i += WARP) {
            u32 at = held * 2 * BLOCK + i;
            staged[i] = at < tile.count ? start[at] : 0;
        }
        wait_for_warp();
        UNROLL for (int run = 0; run < Layout::RUNS; ++run)
            x.set_run(held, run, load((const Words4*)(staged + side() * BLOCK + Layout::run_at(run))));
        wait_for_warp();
    }
}

template <class Element>
DEVICE void store_elements(const LaneElements<Element>& x, const Tile& tile, Staging<Element>& staging,
                           typename Element::Bits* start) {
    typedef Layout<Element> Layout;
    if (tile.is_whole() && is_aligned(start)) {
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int run = 0; run < Layout::RUNS; ++run) {
                auto* to = start + tile.block(held) * BLOCK + Layout::run_at(run);
                store((Words4*)to, x.run(held, run));
            }
        return;
    }
    typename Element::Bits* staged = staging.own();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        UNROLL for (int run = 0; run < Layout::RUNS; ++run)
            store((Words4*)(staged + side() * BLOCK + Layout::run_at(run)), x.run(held, run));
        wait_for_warp();
        NO_UNROLL for (u32 i = lane_in_warp(); i < 2 * BLOCK; i += WARP) {
            u32 at = held * 2 * BLOCK + i;
            if (at < tile.count) start[at] = staged[i];
        }
        wait_for_warp();
    }
}
