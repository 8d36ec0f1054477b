// docs/wire-format.md, 'Writing a block', for the eight blocks of a tile at once: scales, codes, and under
// `auto` the choice between E4M3 and INT8. The lanes of a warp take every branch together, since they
// exchange values behind it.
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
DEVICE Scale scale_for(float largest, float largest_code, u32 largest_scale) {
    constexpr u32 LEAST_SCALE = (127 - 110) << 7;
    if (largest == 0.0f) return {0.0f, 0.0f, false};
    u32 rounded_up = (bits_of(largest / largest_code) + 0xffffu) >> 16;
    float value = float_of(smaller(larger(rounded_up, LEAST_SCALE), largest_scale) << 16);
    float reciprocal = 1.0f / value;
    // Rounding keeps order: if the largest element does not saturate, none does.
    return {value, reciprocal, largest * reciprocal > largest_code};
}

// A lane's codes of one block, and its sums of squared errors under the scale 1, four elements at a time.
template <class Codes, class Element>
DEVICE void encode(const LaneElements<Element>& x, int held, float reciprocal, u32* codes, float* quad) {
    UNROLL for (int word = 0; word < HELD / 4; ++word) {
        float y[4], w[4];
        UNROLL for (int i = 0; i < 4; ++i) y[i] = x.value(held, 4 * word + i) * reciprocal;
        codes[word] = Codes::encode(y, w);
        if (quad == nullptr) continue;
        UNROLL for (int i = 0; i < 4; ++i) {
            w[i] -= y[i];
            w[i] *= w[i];
        }
        quad[word] = (w[0] + w[1]) + (w[2] + w[3]);
    }
}

template <class Codes, class Element> struct TileWriter {
    static DEVICE void write(const LaneElements<Element>& x, float largest, Written& written) {
        Scale scale = scale_for(largest, Codes::largest(), Codes::LARGEST_SCALE);
        written.scale_word = (bits_of(scale.value) >> 16) | Codes::MARK;
        written.may_saturate = scale.may_saturate;
        from_keepers<0>(scale.reciprocal, written.reciprocal);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            written.largest[held] = Codes::largest();
            encode<Codes, Element>(x, held, written.reciprocal[held], written.codes.of[held], nullptr);
        }
    }
};

// Even keepers see to E4M3 and odd ones to INT8.
template <class Element> struct TileWriter<Auto, Element> {
    static DEVICE void write(const LaneElements<Element>& x, float largest, Written& written) {
        bool odd = (lane_of_block() & 1) != 0;
        Scale scale = scale_for(largest, odd ? Int8::largest() : E4M3::largest(),
                                odd ? Int8::LARGEST_SCALE : E4M3::LARGEST_SCALE);
        written.may_saturate = scale.may_saturate;
        float e4m3[HELD_BLOCKS], int8[HELD_BLOCKS], quad[HELD_BLOCKS][2][2];
        from_keepers<0>(scale.reciprocal, e4m3);
        from_keepers<1>(scale.reciprocal, int8);
        LaneCodes int8_codes;
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            encode<E4M3, Element>(x, held, e4m3[held], written.codes.of[held], quad[held][0]);
            encode<Int8, Element>(x, held, int8[held], int8_codes.of[held], quad[held][1]);
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
DEVICE void write_blocks(u32 format, const LaneElements<Element>& x, float largest, Written& written) {
    switch (format) {
    case FORMAT_E4M3: TileWriter<E4M3, Element>::write(x, largest, written); break;
    case FORMAT_E5M2: TileWriter<E5M2, Element>::write(x, largest, written); break;
    case FORMAT_INT8: TileWriter<Int8, Element>::write(x, largest, written); break;
    default: TileWriter<Auto, Element>::write(x, largest, written); break;
    }
}

// Takes the elements that are not finite out of the blocks, and the signs of zeros out of blocks that
// have nothing else. Returns the bits of the former and corrects the largest magnitude.
template <class Element> DEVICE u32 set_aside_non_finite(LaneElements<Element>& x, u32& largest) {
    rarely_here();
    u32 non_finite = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if (x.magnitude_bits(held, i) >= Element::INFINITE) {
                non_finite |= 1u << (HELD * held + i);
                x.set(held, i, 0);
            }
    largest = largest_magnitude<Element>(x);
    u32 of_block[HELD_BLOCKS];
    from_keepers<0>(largest, of_block);
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int w = 0; w < Layout<Element>::WORDS; ++w)
            if (of_block[held] == 0) x.of[held][w] = 0;
    return non_finite;
}

// Puts the codes of non-finite elements in. Rare, so short rather than fast.
DEVICE void mark_non_finite(u32 non_finite, Written& written) {
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        u64 code = written.largest[held] == Int8::largest() ? Int8::NON_FINITE : E4M3::NON_FINITE;
        u64 codes = written.codes.of[held][0] | ((u64)written.codes.of[held][1] << 32);
        NO_UNROLL for (int i = 0; i < HELD; ++i)
            if ((non_finite >> (HELD * held + i)) & 1)
                codes = (codes & ~((u64)0xff << (8 * i))) | (code << (8 * i));
        written.codes.of[held][0] = (u32)codes;
        written.codes.of[held][1] = (u32)(codes >> 32);
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
