// Reading a tile of a packet: every code times its block's scale, kept within the range of the element
// type. Codes of non-finite elements are only noted: what is made of them here means nothing.
#pragma once

#include "codes.h"
#include "formats.h"

// One bit per element, from the marks at bit 7 of each byte.
DEVICE u32 gathered(u32 marks) { return ((marks >> 7) * 0x10204080u) >> 28; }

// Reads a lane's 8 elements of one block and returns the bits of those that are not finite.
template <class Codes, class Element> struct BlockReader {
    static DEVICE u32 read(const u32* codes, u32 scale_word, float* value) {
        float scale = scale_of(scale_word);
        UNROLL for (int word = 0; word < HELD / 4; ++word) Codes::decode(codes[word], value + 4 * word);
        UNROLL for (int i = 0; i < HELD; ++i) {
            value[i] *= scale;
            // The largest scale sees to it that binary32 is never exceeded.
            if (sizeof(typename Element::Bits) == 2) value[i] = within(value[i], Element::largest());
        }
        u32 first = Codes::non_finite_codes(codes[0]);
        u32 second = Codes::non_finite_codes(codes[1]);
        return (first | second) == 0 ? 0 : gathered(first) | (gathered(second) << 4);
    }
};

template <class Element> struct BlockReader<Auto, Element> {
    static DEVICE u32 read(const u32* codes, u32 scale_word, float* value) {
        return (scale_word & Int8::MARK) != 0 ? BlockReader<Int8, Element>::read(codes, scale_word, value)
                                              : BlockReader<E4M3, Element>::read(codes, scale_word, value);
    }
};

// Packets that hold the same elements, one per rank.
struct RankPackets {
    const u8* first;
    u64 stride;
    u32 ranks;
    float factor;  // of every decoded value
};

// Adds up the ranks' packets in their order. The codes of the next one are asked for before those of this
// one are used.
template <class Codes, class Element>
DEVICE u32 sum_tiles_of(const RankPackets& packets, const Tile& tile, LaneValues& sum) {
    // -0 and not +0: it leaves the sign of a first summand that is zero alone.
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i) sum.of[held][i] = -0.0f;
    u32 non_finite = 0;
    TileCodes next;
    load_codes<Element>(packets.first, tile, next);
    NO_UNROLL for (u32 rank = 0; rank < packets.ranks; ++rank) {
        TileCodes tile_codes = next;
        if (rank + 1 < packets.ranks) load_codes<Element>(packets.first + (rank + 1) * packets.stride, tile, next);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            float value[HELD];
            u32 word = tile_codes.scale_word(held);
            non_finite |= BlockReader<Codes, Element>::read(tile_codes.codes.of[held], word, value) << (HELD * held);
            UNROLL for (int i = 0; i < HELD; ++i) sum.of[held][i] += value[i] * packets.factor;
        }
    }
    return non_finite;
}

// Returns the bits of the elements that are not finite.
template <class Element>
DEVICE u32 sum_tiles(u32 format, const RankPackets& packets, const Tile& tile, LaneValues& sum) {
    switch (format) {
    case FORMAT_E4M3: return sum_tiles_of<E4M3, Element>(packets, tile, sum);
    case FORMAT_E5M2: return sum_tiles_of<E5M2, Element>(packets, tile, sum);
    case FORMAT_INT8: return sum_tiles_of<Int8, Element>(packets, tile, sum);
    default: return sum_tiles_of<Auto, Element>(packets, tile, sum);
    }
}
