// The counts and samples of a tile that has been written. Everything here is rare, so nothing is fast.
#pragma once

#include "read_tile.h"
#include "stats.h"
#include "write_tile.h"

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

DEVICE void count_saturated(const LaneValues& x, const Written& written, AirampStats* stats) {
    u32 saturated = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            saturated += magnitude(x.of[held][i] * written.reciprocal[held]) > written.largest[held];
    if (saturated != 0) add_atomically(&stats->saturated, (u64)saturated);
}

// Adds error and signal of the tile's first block. Elements that were set aside are 0 here, and so are
// their codes still.
template <class Element>
DEVICE void sample(u32 format, const LaneValues& x, const Written& written, AirampStats* stats) {
    float value[HELD];
    u32 word = from_lane<0>(written.scale_word);
    if (format == FORMAT_E5M2) {
        BlockReader<E5M2, Element>::read(written.codes.of[0], word, value);
    } else {
        // The mark says which, under every format but E5M2.
        BlockReader<Auto, Element>::read(written.codes.of[0], word, value);
    }
    double squared_error = 0.0, signal = 0.0;
    UNROLL for (int i = 0; i < HELD; ++i) {
        double error = (double)value[i] - (double)x.of[0][i];
        squared_error += error * error;
        signal += (double)x.of[0][i] * (double)x.of[0][i];
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
DEVICE void write_tile(u32 format, LaneValues& x, const Tile& tile, u8* packet, AirampStats* stats) {
    u32 non_finite = 0;
    u32 largest = largest_magnitude(x);
    bool unusual = any_in_warp(largest == 0 || largest >= INFINITE);
    if (unusual) non_finite = set_aside_non_finite(x, largest);
    Written written;
    write_blocks<Element>(format, x, largest, written);
    if (stats != nullptr) {
        if (unusual) count_non_finite_blocks(non_finite, stats);
        if (any_in_warp(written.may_saturate)) count_saturated(x, written, stats);
        if (tile.first_block() % SAMPLED_EVERY == 0) sample<Element>(format, x, written, stats);
    }
    if (non_finite != 0) mark_non_finite(non_finite, written);
    store_tile<Element>(written, tile, packet);
}
