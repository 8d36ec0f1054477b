// Writing a tile of a packet, from elements to memory, and counting what tells of its quality. What is
// counted is rare, so that part is not fast.
#pragma once

#include "read_tile.h"
#include "stats.h"
#include "write_blocks.h"

DEVICE void count_non_finite_blocks(u32 non_finite, AirampStats* stats) {
    u32 blocks = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        if ((non_finite >> (HELD * held)) & 0xffu) blocks |= 1u << held;
    blocks |= exchange<8>(blocks);
    blocks |= exchange<4>(blocks);
    blocks |= exchange<2>(blocks);
    blocks |= exchange<1>(blocks);
    if (lane_of_block() == 0 && blocks != 0) add_atomically(&stats->non_finite_blocks, (u64)bits_set(blocks));
}

template <class Element>
DEVICE void count_saturated(const LaneElements<Element>& x, const Written& written, AirampStats* stats) {
    rarely_here();
    u32 saturated = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            saturated += magnitude(x.value(held, i) * written.reciprocal[held]) > written.largest[held];
    if (saturated != 0) add_atomically(&stats->saturated, (u64)saturated);
}

// Adds error and signal of the tile's first block. Elements that were set aside are 0 here, and so are
// their codes still.
template <class Element>
DEVICE void sample(u32 format, const LaneElements<Element>& x, const Written& written, AirampStats* stats) {
    float value[HELD];
    u32 word = from_lane<0>(written.scale_word);
    // The mark says which codes they are, under every format but E5M2.
    if (format == FORMAT_E5M2) decoded<E5M2, Element>(written.codes.of[0], word, 1.0f, value);
    else BlockReader<Auto, Element>::template read<false>(written.codes.of[0], word, 1.0f, value);
    double squared_error = 0.0, signal = 0.0;
    UNROLL for (int i = 0; i < HELD; ++i) {
        double element = x.value(0, i), error = value[i] - element;
        squared_error += error * error;
        signal += element * element;
    }
    squared_error += exchange<8>(squared_error);
    squared_error += exchange<4>(squared_error);
    squared_error += exchange<2>(squared_error);
    squared_error += exchange<1>(squared_error);
    signal += exchange<8>(signal);
    signal += exchange<4>(signal);
    signal += exchange<2>(signal);
    signal += exchange<1>(signal);
    if (side() != 0 || lane_of_block() != 0) return;
    add_atomically(&stats->squared_error, squared_error);
    add_atomically(&stats->signal, signal);
}

// Writes a tile whole: codes, scale words, and what is to be counted (`stats` may be null).
template <class Element>
DEVICE void write_tile(u32 format, LaneElements<Element>& x, const Tile& tile, u8* packet, AirampStats* stats) {
    u32 non_finite = 0;
    u32 largest = largest_magnitude<Element>(x);
    bool unusual = any_in_warp(largest == 0 || largest >= Element::INFINITE);
    if (unusual) non_finite = set_aside_non_finite<Element>(x, largest);
    Written written;
    write_blocks<Element>(format, x, Element::widen(largest), written);
    if (stats != nullptr) {
        if (unusual) count_non_finite_blocks(non_finite, stats);
        if (any_in_warp(written.may_saturate)) count_saturated<Element>(x, written, stats);
        if (tile.first_block() % SAMPLED_EVERY == 0) sample<Element>(format, x, written, stats);
    }
    if (non_finite != 0) mark_non_finite(non_finite, written);
    store_tile<Element>(written, tile, packet);
}
