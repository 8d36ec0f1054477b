// A tile's codes and scale words between a packet and the lanes. Packets begin at multiples of 16 bytes,
// so a lane's run of codes (8 bytes for 16-bit elements, 4 for binary32) is one access.
#pragma once

#include "tile.h"

DEVICE float scale_of(u32 word) { return float_of((word & 0x7fffu) << 16); }

struct TileCodes {
    LaneCodes codes;
    Words4 scale_words;

    // The scale word of the block that this lane's side holds.
    DEVICE u32 scale_word(int held) const { return (scale_words.of[held] >> (16 * side())) & 0xffffu; }
};

template <class Element> DEVICE void load_codes(const u8* packet, const Tile& tile, TileCodes& into) {
    typedef Layout<Element> Layout;
    into.scale_words = load((const Words4*)(packet + tile.scale_words_at));
    const u8* block = packet + tile.codes_at() + side() * BLOCK;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        Words2 both = {{0, 0}};
        if (tile.has_block(held)) {
            if (Layout::RUNS == 1) {
                both = load((const Words2*)(block + Layout::run_at(0)));
            } else {
                both.of[0] = *(const u32*)(block + Layout::run_at(0));
                both.of[1] = *(const u32*)(block + Layout::run_at(1));
            }
        }
        into.codes.of[held][0] = both.of[0];
        into.codes.of[held][1] = both.of[1];
        block += 2 * BLOCK;
    }
}

template <class Element> DEVICE void store_codes(const LaneCodes& codes, const Tile& tile, u8* packet) {
    typedef Layout<Element> Layout;
    u8* block = packet + tile.codes_at() + side() * BLOCK;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        if (tile.has_block(held)) {
            if (Layout::RUNS == 1) {
                store((Words2*)(block + Layout::run_at(0)), Words2{{codes.of[held][0], codes.of[held][1]}});
            } else {
                *(u32*)(block + Layout::run_at(0)) = codes.of[held][0];
                *(u32*)(block + Layout::run_at(1)) = codes.of[held][1];
            }
        }
        block += 2 * BLOCK;
    }
}
