// A tile's elements between a user's buffer and the lanes, as binary32. 16 bytes at a time where the
// buffer's alignment and the packet's end allow it, else element by element by way of shared memory;
// beyond the end they are +0.
#pragma once

#include "tile.h"

// Two blocks per warp: what its lanes hold of one block each.
template <class Element> struct Staging {
    alignas(16) typename Element::Bits of[GROUP / WARP][2 * BLOCK];

    DEVICE typename Element::Bits* own() { return of[thread_in_group() / WARP]; }
};

template <class Element> struct LaneWords { Words4 of[HELD_BLOCKS][Layout<Element>::RUNS]; };

template <class Element>
DEVICE void load_words(const typename Element::Bits* start, const Tile& tile, Staging<Element>& staging,
                       LaneWords<Element>& words) {
    typedef Layout<Element> Layout;
    if (tile.is_whole() && is_aligned(start)) {
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int run = 0; run < Layout::RUNS; ++run)
                words.of[held][run] = *(const Words4*)(start + tile.block(held) * BLOCK + Layout::run_at(run));
        return;
    }
    typename Element::Bits* staged = staging.own();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        NO_UNROLL for (u32 i = thread_in_group() % WARP; i < 2 * BLOCK; i += WARP) {
            u32 at = held * 2 * BLOCK + i;
            staged[i] = at < tile.count ? start[at] : 0;
        }
        wait_for_warp();
        UNROLL for (int run = 0; run < Layout::RUNS; ++run)
            words.of[held][run] = *(const Words4*)(staged + side() * BLOCK + Layout::run_at(run));
        wait_for_warp();
    }
}

template <class Element>
DEVICE void store_words(const LaneWords<Element>& words, const Tile& tile, Staging<Element>& staging,
                        typename Element::Bits* start) {
    typedef Layout<Element> Layout;
    if (tile.is_whole() && is_aligned(start)) {
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int run = 0; run < Layout::RUNS; ++run)
                *(Words4*)(start + tile.block(held) * BLOCK + Layout::run_at(run)) = words.of[held][run];
        return;
    }
    typename Element::Bits* staged = staging.own();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        UNROLL for (int run = 0; run < Layout::RUNS; ++run)
            *(Words4*)(staged + side() * BLOCK + Layout::run_at(run)) = words.of[held][run];
        wait_for_warp();
        NO_UNROLL for (u32 i = thread_in_group() % WARP; i < 2 * BLOCK; i += WARP) {
            u32 at = held * 2 * BLOCK + i;
            if (at < tile.count) start[at] = staged[i];
        }
        wait_for_warp();
    }
}

template <class Element>
DEVICE void load_elements(const typename Element::Bits* start, const Tile& tile, Staging<Element>& staging,
                          LaneValues& x) {
    constexpr int BITS = 8 * sizeof(typename Element::Bits);
    LaneWords<Element> words;
    load_words<Element>(start, tile, staging, words);
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i) {
            u32 word = words.of[held][i / Layout<Element>::RUN].of[i % Layout<Element>::RUN * BITS / 32];
            x.of[held][i] = Element::widen(BITS == 32 ? word : i % 2 == 0 ? word & 0xffffu : word >> 16);
        }
}

// The elements whose bits are set in `non_finite`, 8 to a block, are written as NaN.
template <class Element>
DEVICE void store_elements(const LaneValues& x, u32 non_finite, const Tile& tile, Staging<Element>& staging,
                           typename Element::Bits* start) {
    LaneWords<Element> words;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        u32 bits[HELD];
        UNROLL for (int i = 0; i < HELD; ++i) {
            bits[i] = Element::narrow(x.of[held][i]);
            if ((non_finite >> (HELD * held + i)) & 1) bits[i] = Element::NOT_A_NUMBER;
        }
        UNROLL for (int w = 0; w < 4 * Layout<Element>::RUNS; ++w)
            words.of[held][w / 4].of[w % 4] =
                sizeof(typename Element::Bits) == 4 ? bits[w] : bits[2 * w % HELD] | (bits[(2 * w + 1) % HELD] << 16);
    }
    store_words<Element>(words, tile, staging, start);
}
