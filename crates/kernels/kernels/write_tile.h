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

// Adds error and signal of the tile's first block. Elements that were set aside are 0 here, and so are
// their codes still.
template <class Format, class Element>
DEVICE void sample(const LaneElements<Element>& x, const Written& written, AirampStats* stats) {
    rarely_here();
    LaneElements<Element> again = x.forgotten();
    float value[HELD];
    UNROLL for (int i = 0; i < HELD; ++i) value[i] = -0.0f;
    float signed_scale = float_of(from_lane<0>(written.scale_word) << 16);
    BlockCodes block = {{written.codes.of[0][0], written.codes.of[0][1]}, signed_scale};
    BlockReader<Format>::template add_exactly<Element>(block, 1.0f, value);
    double squared_error = 0.0, signal = 0.0;
    UNROLL for (int i = 0; i < HELD; ++i) {
        double element = again.value(0, i), error = value[i] - element;
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

// Writes a tile whole: tag, codes, scale words, and what is to be counted if anybody asked for it.
template <class Format, class Element>
DEVICE void write_tile(LaneElements<Element>& x, const Tile& tile, Tag tag, u8* packet,
                       Counts counts) {
    u32 non_finite = 0;
    u32 largest = largest_magnitude<Element>(x);
    bool finite = largest < Element::INFINITE;
    bool unusual = any_in_warp(largest == 0 || !finite);
    if (unusual) non_finite = set_aside_non_finite<Element>(x, largest);
    Written written;
    TileWriter<Format, Element>::write(x, Element::widen(largest), finite, counts, written);
    if (counts.wanted) {
        if (unusual) count_non_finite_blocks(non_finite, counts.group);
        if (tile.is_sampled()) sample<Format, Element>(x, written, counts.group);
    }
    if (non_finite != 0) mark_non_finite(non_finite, written);
    store_tile<Element>(written, tile, tag, packet);
}
