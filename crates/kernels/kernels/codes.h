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

// The scale words of a tile's BLOCKS blocks of both sides, from `held` on: two to a word.
template <int BLOCKS> DEVICE void load_scale_words(const TileBytes& from, int held, u32* words) {
    const u8* first = from.scale_words + 4 * held;
    if constexpr (BLOCKS == 4) {
        Words4 four = load((const Words4*)first);
        UNROLL for (int b = 0; b < 4; ++b) words[b] = four.of[b];
    } else if constexpr (BLOCKS == 2) {
        Words2 two = load((const Words2*)first);
        UNROLL for (int b = 0; b < 2; ++b) words[b] = two.of[b];
    } else {
        words[0] = *(const u32*)first;
    }
}

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

// A lane's codes of one block.
template <class Element> DEVICE void store_codes(const u32* codes, u8* block) {
    typedef Layout<Element> Layout;
    if (Layout::RUNS == 1) {
        store((Words2*)(block + Layout::run_at(0)), Words2{{codes[0], codes[1]}});
    } else {
        *(u32*)(block + Layout::run_at(0)) = codes[0];
        *(u32*)(block + Layout::run_at(1)) = codes[1];
    }
}

template <class Element> DEVICE void store_codes(const LaneCodes& codes, const Tile& tile, u8* packet) {
    u8* block = packet + tile.codes_at() + side() * BLOCK;
    if (tile.is_whole()) {
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            store_codes<Element>(codes.of[held], block + held * (2 * BLOCK));
        return;
    }
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        if (tile.has_block(held)) store_codes<Element>(codes.of[held], block + held * (2 * BLOCK));
}
