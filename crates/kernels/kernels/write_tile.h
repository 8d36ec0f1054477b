// Writing a tile as packet: docs/wire-format.md, 'Writing a block', for the eight blocks of a warp at once.
// The lanes of a warp take every branch here together, since they exchange values behind it.
#pragma once

#include "across_lanes.h"
#include "codes.h"
#include "formats.h"

// A lane's part in writing a tile. The scale is that of the block it keeps.
struct Written {
    LaneCodes codes;
    u32 scale_word;
    float reciprocal[HELD_BLOCKS];
    float largest[HELD_BLOCKS];  // of the codes chosen: 448, 57344 or 127
    bool may_saturate;
};

struct Scale {
    float value;
    float reciprocal;
    bool may_saturate;
};

// From the largest magnitude of a block, M of the codes and the bits of their largest scale.
DEVICE Scale scale_for(u32 magnitude_bits, float largest_code, u32 largest_scale) {
    constexpr u32 LEAST_SCALE = (127 - 110) << 7;
    if (magnitude_bits == 0) return {0.0f, 0.0f, false};
    float magnitude = float_of(magnitude_bits);
    u32 rounded_up = (bits_of(magnitude / largest_code) + 0xffffu) >> 16;
    float value = float_of(smaller(larger(rounded_up, LEAST_SCALE), largest_scale) << 16);
    float reciprocal = 1.0f / value;
    // Rounding keeps order: if the largest element does not saturate, none does.
    return {value, reciprocal, magnitude * reciprocal > largest_code};
}

template <class Codes> DEVICE void encode(const float* x, float reciprocal, u32* codes) {
    float y[HELD];
    UNROLL for (int i = 0; i < HELD; ++i) y[i] = x[i] * reciprocal;
    UNROLL for (int word = 0; word < HELD / 4; ++word) codes[word] = Codes::encode(y + 4 * word);
}

// The squared errors of a lane's elements under the scale 1, four at a time.
template <class Codes> DEVICE void squared_errors(const float* x, float reciprocal, const u32* codes, float* quad) {
    UNROLL for (int word = 0; word < HELD / 4; ++word) {
        float w[4];
        Codes::decode(codes[word], w);
        UNROLL for (int i = 0; i < 4; ++i) {
            w[i] -= x[4 * word + i] * reciprocal;
            w[i] *= w[i];
        }
        quad[word] = (w[0] + w[1]) + (w[2] + w[3]);
    }
}

template <class Codes, class Element> struct TileWriter {
    static DEVICE void write(const LaneValues& x, u32 largest, Written& written) {
        Scale scale = scale_for(largest, Codes::largest(), Codes::LARGEST_SCALE);
        written.scale_word = (bits_of(scale.value) >> 16) | Codes::MARK;
        written.may_saturate = scale.may_saturate;
        from_keepers<0>(scale.reciprocal, written.reciprocal);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            written.largest[held] = Codes::largest();
            encode<Codes>(x.of[held], written.reciprocal[held], written.codes.of[held]);
        }
    }
};

// Even keepers see to E4M3 and odd ones to INT8.
template <class Element> struct TileWriter<Auto, Element> {
    static DEVICE void write(const LaneValues& x, u32 largest, Written& written) {
        bool odd = (lane_of_block() & 1) != 0;
        Scale scale = scale_for(largest, odd ? Int8::largest() : E4M3::largest(),
                                odd ? Int8::LARGEST_SCALE : E4M3::LARGEST_SCALE);
        written.may_saturate = scale.may_saturate;
        float e4m3[HELD_BLOCKS], int8[HELD_BLOCKS], quad[HELD_BLOCKS][2][2];
        from_keepers<0>(scale.reciprocal, e4m3);
        from_keepers<1>(scale.reciprocal, int8);
        LaneCodes int8_codes;
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            encode<E4M3>(x.of[held], e4m3[held], written.codes.of[held]);
            encode<Int8>(x.of[held], int8[held], int8_codes.of[held]);
            squared_errors<E4M3>(x.of[held], e4m3[held], written.codes.of[held], quad[held][0]);
            squared_errors<Int8>(x.of[held], int8[held], int8_codes.of[held], quad[held][1]);
        }
        float error = error_sum<Layout<Element>::RUNS == 1>(quad);
        u32 chosen = choose(scale.value, error, odd, written.scale_word);
        u32 take_int8[HELD_BLOCKS];
        from_keepers<0>(chosen, take_int8);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            bool taken = take_int8[held] != 0;
            written.reciprocal[held] = taken ? int8[held] : e4m3[held];
            written.largest[held] = taken ? Int8::largest() : E4M3::largest();
            UNROLL for (int word = 0; word < HELD / 4; ++word)
                if (taken) written.codes.of[held][word] = int8_codes.of[held][word];
        }
    }

    // 1 if the block that this lane keeps is to be INT8. A block of zeros has no quotient of scales and
    // stays E4M3.
    static DEVICE u32 choose(float scale, float error, bool odd, u32& word) {
        float other_scale = exchange<1>(scale);
        float other_error = exchange<1>(error);
        float e4m3_scale = odd ? other_scale : scale, int8_scale = odd ? scale : other_scale;
        float e4m3_error = odd ? other_error : error, int8_error = odd ? error : other_error;
        float k = e4m3_scale / int8_scale;
        bool int8 = int8_error < e4m3_error * (k * k);
        word = (bits_of(int8 ? int8_scale : e4m3_scale) >> 16) | (int8 ? Int8::MARK : E4M3::MARK);
        return int8;
    }
};

template <class Element>
DEVICE void write_blocks(u32 format, const LaneValues& x, u32 largest, Written& written) {
    switch (format) {
    case FORMAT_E4M3: TileWriter<E4M3, Element>::write(x, largest, written); break;
    case FORMAT_E5M2: TileWriter<E5M2, Element>::write(x, largest, written); break;
    case FORMAT_INT8: TileWriter<Int8, Element>::write(x, largest, written); break;
    default: TileWriter<Auto, Element>::write(x, largest, written); break;
    }
}

// Takes the elements that are not finite out of the blocks, and the signs of zeros out of blocks that
// have nothing else. Returns the bits of the former and corrects the largest magnitude.
DEVICE u32 set_aside_non_finite(LaneValues& x, u32& largest) {
    u32 non_finite = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if ((bits_of(x.of[held][i]) & INFINITE) == INFINITE) {
                non_finite |= 1u << (HELD * held + i);
                x.of[held][i] = 0.0f;
            }
    largest = largest_magnitude(x);
    u32 of_block[HELD_BLOCKS];
    from_keepers<0>(largest, of_block);
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if (of_block[held] == 0) x.of[held][i] = 0.0f;
    return non_finite;
}

DEVICE void mark_non_finite(u32 non_finite, Written& written) {
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if ((non_finite >> (HELD * held + i)) & 1) {
                u32& word = written.codes.of[held][i / 4];
                u32 code = written.largest[held] == Int8::largest() ? Int8::NON_FINITE : E4M3::NON_FINITE;
                word = (word & ~(0xffu << (8 * (i % 4)))) | (code << (8 * (i % 4)));
            }
}

// Codes and scale words into the packet; the words behind its last block are its padding.
template <class Element> DEVICE void store_tile(const Written& written, const Tile& tile, u8* packet) {
    store_codes<Element>(written.codes, tile, packet);
    if ((lane_of_block() & 3) != 0) return;
    u16* words = (u16*)(packet + tile.scale_words_at);
    int held = kept_block();
    words[tile.block(held)] = tile.has_block(held) ? (u16)written.scale_word : 0;
}
