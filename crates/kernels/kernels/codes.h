// A tile's codes and scale words between a packet and the lanes. Packets begin at multiples of 16 bytes,
// so a lane's run of codes (4 bytes where binary32 elements come from or go to a buffer, else 8) is one
// access.
#pragma once

#include "tile.h"

// A scale word in the upper half of a binary32 number: the scale with the mark as its sign.
DEVICE float scale_of(float signed_scale) { return magnitude(signed_scale); }

// A lane's codes of one block, and the block's scale.
struct BlockCodes {
    u32 of[HELD / 4];
    float signed_scale;
};

// What a lane reads of a packet's tile begins here.
struct TileBytes {
    const u8* codes;
    const u8* scale_words;

    template <class Element> static DEVICE TileBytes of(const u8* packet, const Tile& tile) {
        const u8* block = packet + tile.codes_at() + side() * BLOCK;
        return {block + Layout<Element>::run_at(0), packet + tile.scale_words_at};
    }
    DEVICE TileBytes behind(u64 bytes) const { return {codes + bytes, scale_words + bytes}; }
    DEVICE float signed_scale(int held) const {
        return float_of((u32) * (const u16*)(scale_words + 4 * held + 2 * side()) << 16);
    }
};

template <class Element> DEVICE void load_codes(const TileBytes& from, int held, BlockCodes& into) {
    typedef Layout<Element> Layout;
    const u8* codes = from.codes + held * (2 * BLOCK);
    if (Layout::RUNS == 1) {
        Words2 both = load((const Words2*)codes);
        into.of[0] = both.of[0];
        into.of[1] = both.of[1];
    } else {
        into.of[0] = *(const u32*)codes;
        into.of[1] = *(const u32*)(codes + BLOCK / 2);
    }
}

template <class Element> DEVICE void store_codes(const LaneCodes& codes, const Tile& tile, u8* packet) {
    typedef Layout<Element> Layout;
    u8* block = packet + tile.codes_at() + side() * BLOCK;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        if (tile.is_whole() || tile.has_block(held)) {
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
