// docs/wire-format.md, 'Writing a block', for the eight blocks of a tile at once: scales, codes, and under
// `auto` the choice between E4M3 and INT8. The lanes of a warp take every branch together, since they
// exchange values behind it.
#pragma once

#include "across_lanes.h"
#include "codes.h"
#include "formats.h"
#include "stats.h"

// A lane's part in writing a tile. The scale is that of the block it keeps.
struct Written {
    LaneCodes codes;
    u32 scale_word;
};

struct Scale {
    float value;
    float reciprocal;

    DEVICE u32 word() const { return bits_of(value) >> 16; }
};

// From the largest magnitude of a block.
template <class Codes> DEVICE Scale scale_for(float largest) {
    constexpr u32 LEAST_SCALE = (127 - 110) << 7;
    // A product with 1 / M, corrected once by what is left over: the bits of the quotient.
    float product = largest * Codes::one_over_largest();
    float rest = multiply_add(-Codes::largest(), product, largest);
    float quotient = multiply_add(rest, Codes::one_over_largest(), product);
    u32 rounded_up = (bits_of(quotient) + 0xffffu) >> 16;
    float value = float_of(smaller(larger(rounded_up, LEAST_SCALE), Codes::LARGEST_SCALE) << 16);
    if (largest == 0.0f) return {0.0f, 0.0f};
    return {value, reciprocal_of(value)};
}

// Whether an element of a block can exceed M. Rounding keeps order: if the largest does not, none does.
template <class Codes> DEVICE bool may_saturate(float largest, const Scale& scale) {
    return largest * scale.reciprocal > Codes::largest();
}

// A lane's codes of one block.
template <class Codes, class Element>
DEVICE void encode(const LaneElements<Element>& x, int held, float reciprocal, u32* codes) {
    UNROLL for (int word = 0; word < HELD / 4; ++word) {
        float value[4];
        UNROLL for (int i = 0; i < 4; ++i) value[i] = x.value(held, 4 * word + i);
        codes[word] = Codes::encode(value, reciprocal);
    }
}

// Counts the elements beyond M, which depends on the block if some are INT8 (one bit per block in `int8`).
// `possible`: in the block that this lane keeps.
template <class Codes, class Element>
DEVICE void count_saturated(const LaneElements<Element>& x, const float* reciprocal, u32 int8,
                            bool possible, Counts counts) {
    if (!counts.wanted || !any_in_warp(possible)) return;
    rarely_here();
    LaneElements<Element> again = x.forgotten();
    u32 saturated = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        float largest = (int8 >> held) & 1 ? Int8::largest() : Codes::largest();
        UNROLL for (int i = 0; i < HELD; ++i)
            saturated += magnitude(again.value(held, i) * reciprocal[held]) > largest;
    }
    if (saturated != 0) add_atomically(&counts.group->saturated, (u64)saturated);
}

// `finite`: the block that this lane keeps has no other elements.
template <class Codes, class Element> struct TileWriter {
    static DEVICE void write(const LaneElements<Element>& x, float largest, bool, Counts counts,
                             Written& written) {
        Scale scale = scale_for<Codes>(largest);
        written.scale_word = scale.word() | Codes::MARK;
        float reciprocal[HELD_BLOCKS];
        from_keepers(scale.reciprocal, reciprocal);
        count_saturated<Codes, Element>(x, reciprocal, 0, may_saturate<Codes>(largest, scale), counts);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            encode<Codes, Element>(x, held, reciprocal[held], written.codes.of[held]);
    }
};

// Every block as INT8, and then those again that are to be E4M3.
template <class Element> struct MarkedWriter {
    template <class Choice>
    static DEVICE void write(const LaneElements<Element>& x, float largest, Choice takes_int8,
                             Counts counts, Written& written) {
        Scale scale = scale_for<Int8>(largest);
        float reciprocal[HELD_BLOCKS];
        from_keepers(scale.reciprocal, reciprocal);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            encode<Int8, Element>(x, held, reciprocal[held], written.codes.of[held]);
        written.scale_word = scale.word() | Int8::MARK;
        bool int8 = takes_int8(written.codes);
        if (any_in_warp(!int8)) write_e4m3(x, largest, int8, scale, reciprocal, counts, written);
        else count_saturated<E4M3, Element>(x, reciprocal, ~0u, may_saturate<Int8>(largest, scale), counts);
    }

    static DEVICE void write_e4m3(const LaneElements<Element>& x, float largest, bool int8,
                                  const Scale& scale, float* reciprocal, Counts counts,
                                  Written& written) {
        rarely_here();
        LaneElements<Element> again = x.forgotten();
        Scale other = scale_for<E4M3>(largest);
        if (!int8) written.scale_word = other.word() | E4M3::MARK;
        u32 are_int8 = votes_of_keepers(int8);
        float e4m3[HELD_BLOCKS];
        from_keepers(other.reciprocal, e4m3);
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            if (((are_int8 >> held) & 1) == 0) {
                reciprocal[held] = e4m3[held];
                encode<E4M3, Element>(again, held, e4m3[held], written.codes.of[held]);
            }
        bool possible = int8 ? may_saturate<Int8>(largest, scale) : may_saturate<E4M3>(largest, other);
        count_saturated<E4M3, Element>(again, reciprocal, are_int8, possible, counts);
    }
};

template <class Element> struct TileWriter<MostlyInt8, Element> {
    static DEVICE void write(const LaneElements<Element>& x, float largest, bool finite, Counts counts,
                             Written& written) {
        MarkedWriter<Element>::write(x, largest, [=](const LaneCodes&) { return finite; }, counts, written);
    }
};

template <class Element> struct TileWriter<Auto, Element> {
    static constexpr i32 LEAST = 17000;

    static DEVICE void write(const LaneElements<Element>& x, float largest, bool finite, Counts counts,
                             Written& written) {
        auto choice = [=](const LaneCodes& codes) { return suits(codes) && finite; };
        MarkedWriter<Element>::write(x, largest, choice, counts, written);
    }

    // Whether INT8 is the choice for the block that this lane keeps. Every code other than zero stands for
    // an error of about a twelfth, which E4M3 undercuts where the other elements are small.
    static DEVICE bool suits(const LaneCodes& codes) {
        i32 worth[HELD_BLOCKS];
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
            worth[held] = 0;
            UNROLL for (int word = 0; word < HELD / 4; ++word)
                worth[held] = dot_bytes(codes.of[held][word], codes.of[held][word], worth[held]);
        }
        if (!any_in_warp(!surely_suits(worth))) return true;
        rarely_here();
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            UNROLL for (int word = 0; word < HELD / 4; ++word) {
                u32 four = codes.of[held][word];
                forget(four);
                // -128 in every byte of a code other than zero.
                u32 others = (((four & 0x7f7f7f7fu) + 0x7f7f7f7fu) | four) & 0x80808080u;
                worth[held] = dot_bytes(others, 0x01010101u, worth[held]);
            }
        return sum_over_block(worth) >= LEAST;
    }

    // Whether it is, of all blocks of a warp if it is so in all lanes, by what most blocks of usual elements
    // fulfil: every two lanes that are 8 apart have their part of the squares, were no code zero. `squares`: a
    // lane's sums.
    static DEVICE bool surely_suits(const i32* squares) {
        constexpr u32 PARTS = 8, UNIT = 256;
        constexpr u32 PART = (LEAST + 128 * BLOCK + PARTS * UNIT - 1) / (PARTS * UNIT);
        bool upper = (lane_of_block() & 8) != 0;
        // In units of 256, rounded down, two blocks to a word.
        u32 low = bytes_of<0x6521>(squares[0], squares[1]), high = bytes_of<0x6521>(squares[2], squares[3]);
        u32 kept = (upper ? high : low) + exchange<8>(upper ? low : high);
        return (~(kept + (0x8000 - PART) * 0x10001u) & 0x80008000u) == 0;
    }
};

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
    from_keepers(largest, of_block);
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int w = 0; w < Layout<Element>::WORDS; ++w)
            if (of_block[held] == 0) x.of[held][w] = 0;
    return non_finite;
}

// Puts the codes of non-finite elements in. Rare, so short rather than fast.
DEVICE void mark_non_finite(u32 non_finite, Written& written) {
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        constexpr u64 code = E4M3::NON_FINITE;
        u64 codes = written.codes.of[held][0] | ((u64)written.codes.of[held][1] << 32);
        NO_UNROLL for (int i = 0; i < HELD; ++i)
            if ((non_finite >> (HELD * held + i)) & 1)
                codes = (codes & ~((u64)0xff << (8 * i))) | (code << (8 * i));
        written.codes.of[held][0] = (u32)codes;
        written.codes.of[held][1] = (u32)(codes >> 32);
    }
}

// Tag, codes and scale words into the packet; the words behind its last block are its padding.
template <class Element>
DEVICE void store_tile(const Written& written, const Tile& tile, Tag tag, u8* packet) {
    if (tile.is_first() && lane_in_warp() == 0) store((Words4*)packet, tag.words());
    store_codes<Element>(written.codes, tile, packet);
    if ((lane_of_block() & 3) != 0) return;
    u16* words = (u16*)(packet + tile.scale_words_at);
    int held = kept_block();
    words[tile.block(held)] = tile.has_block(held) ? (u16)written.scale_word : 0;
}
