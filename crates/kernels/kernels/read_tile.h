// Reading a tile of packets: every code times its block's scale, kept within the range of the element
// type, and added up over the ranks. What codes of non-finite elements become on the way means nothing:
// they are noted, and are NaN in the end.
#pragma once

#include "codes.h"
#include "elements.h"
#include "formats.h"

// Packets that hold the same elements, one per rank.
struct RankPackets {
    const u8* first;
    u64 stride;
    u32 ranks;
    float factor;  // of every decoded value

    // With these a product with the scale stays exact: the factor may go into the scale.
    DEVICE bool has_plain_factor() const { return (bits_of(factor) & 0x7fffffu) == 0; }
};

// A lane's 8 elements of one block, by the letter of docs/wire-format.md.
template <class Codes, class Element>
DEVICE void decoded(const u32* codes, u32 scale_word, float factor, float* value) {
    UNROLL for (int word = 0; word < HELD / 4; ++word) Codes::decode(codes[word], value + 4 * word);
    UNROLL for (int i = 0; i < HELD; ++i)
        value[i] = within(value[i] * scale_of(scale_word), Element::largest()) * factor;
}

// The same for usual scales and factors, with less work.
template <class Codes>
DEVICE void decoded_plainly(const u32* codes, u32 scale_word, float factor, float* value) {
    Multiplier by = Codes::multiplier(scale_of(scale_word) * factor);
    UNROLL for (int word = 0; word < HELD / 4; ++word) Codes::scaled(codes[word], by, value + 4 * word);
}

// One bit per element whose code is that of a non-finite one. Rare, so short rather than fast.
template <class Codes> DEVICE u32 gathered(const u32* codes) {
    u64 all = codes[0] | ((u64)codes[1] << 32);
    u32 found = 0;
    NO_UNROLL for (int i = 0; i < HELD; ++i) {
        u32 one = (u32)(all >> (8 * i)) & 0xffu;
        found |= ((Codes::non_finite_marks(one | 0x01010100u) >> 7) & 1) << i;
    }
    return found;
}

template <class Codes, class Element> struct BlockReader {
    static DEVICE bool is_plain(u32 scale_word) { return (scale_word & 0x7fffu) <= Codes::PLAIN_SCALE; }
    template <bool PLAIN>
    static DEVICE void read(const u32* codes, u32 scale_word, float factor, float* value) {
        if (PLAIN) decoded_plainly<Codes>(codes, scale_word, factor, value);
        else decoded<Codes, Element>(codes, scale_word, factor, value);
    }
    // Has bit 7, 15, 23 or 31 set if a code is that of a non-finite element.
    static DEVICE u32 marks(const u32* codes, u32) {
        return Codes::non_finite_marks(codes[0]) | Codes::non_finite_marks(codes[1]);
    }
    static DEVICE u32 non_finite(const u32* codes, u32) { return gathered<Codes>(codes); }
};

template <class Element> struct BlockReader<Auto, Element> {
    typedef BlockReader<E4M3, Element> AsE4M3;
    typedef BlockReader<Int8, Element> AsInt8;
    static_assert(E4M3::PLAIN_SCALE == Int8::PLAIN_SCALE, "one bound for both");

    static DEVICE bool is_int8(u32 scale_word) { return (scale_word & Int8::MARK) != 0; }
    static DEVICE bool is_plain(u32 scale_word) { return AsE4M3::is_plain(scale_word); }
    template <bool PLAIN>
    static DEVICE void read(const u32* codes, u32 scale_word, float factor, float* value) {
        if (is_int8(scale_word)) AsInt8::template read<PLAIN>(codes, scale_word, factor, value);
        else AsE4M3::template read<PLAIN>(codes, scale_word, factor, value);
    }
    static DEVICE u32 marks(const u32* codes, u32 word) {
        return is_int8(word) ? AsInt8::marks(codes, word) : AsE4M3::marks(codes, word);
    }
    static DEVICE u32 non_finite(const u32* codes, u32 word) {
        return is_int8(word) ? AsInt8::non_finite(codes, word) : AsE4M3::non_finite(codes, word);
    }
};

struct LaneSums { float of[HELD_BLOCKS][HELD]; };

// Adds a tile to the sums.
template <bool PLAIN, class Reader> DEVICE void add_tile(const TileCodes& in, float factor, LaneSums& sum) {
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        float value[HELD];
        Reader::template read<PLAIN>(in.codes.of[held], in.scale_word(held), factor, value);
        UNROLL for (int i = 0; i < HELD; ++i) sum.of[held][i] += value[i];
    }
}

// One bit per element of a tile whose code is that of a non-finite one.
template <class Reader> DEVICE u32 non_finite_of(const TileCodes& in) {
    u32 marks = 0, found = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        marks |= Reader::marks(in.codes.of[held], in.scale_word(held));
    if ((marks & 0x80808080u) == 0) return 0;
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        found |= Reader::non_finite(in.codes.of[held], in.scale_word(held)) << (HELD * held);
    return found;
}

// Adds up the ranks' packets in their order and returns the bits of the elements that are not finite. The
// codes of the next packet are asked for before those of this one are used.
template <class Codes, class Element>
DEVICE u32 sum_tiles_of(const RankPackets& packets, const Tile& tile, LaneSums& sum) {
    typedef BlockReader<Codes, Element> Reader;
    // -0 and not +0: it leaves the sign of a first summand that is zero alone.
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i) sum.of[held][i] = -0.0f;
    u32 non_finite = 0;
    TileCodes next;
    load_codes<Element>(packets.first, tile, next);
    NO_UNROLL for (u32 rank = 0; rank < packets.ranks; ++rank) {
        TileCodes in = next;
        if (rank + 1 < packets.ranks)
            load_codes<Element>(packets.first + (rank + 1) * packets.stride, tile, next);
        bool plain = packets.has_plain_factor();
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
            plain = plain && Reader::is_plain(in.scale_word(held));
        if (plain) add_tile<true, Reader>(in, packets.factor, sum);
        else add_tile<false, Reader>(in, packets.factor, sum);
        non_finite |= non_finite_of<Reader>(in);
    }
    return non_finite;
}

// The sums as elements of the user's type.
template <class Element>
DEVICE void narrow(const LaneSums& sum, u32 non_finite, LaneElements<Element>& x) {
    typedef Layout<Element> Layout;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int w = 0; w < Layout::WORDS; ++w) {
            const float* first = &sum.of[held][Layout::PER_WORD * w];
            if constexpr (Layout::PER_WORD == 1) x.of[held][w] = bits_of(first[0]);
            else x.of[held][w] = Element::narrow(first[0], first[1]);
        }
    if (non_finite == 0) return;
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if ((non_finite >> (HELD * held + i)) & 1) x.set(held, i, Element::NOT_A_NUMBER);
}

template <class Element>
DEVICE void sum_tiles(u32 format, const RankPackets& packets, const Tile& tile, LaneElements<Element>& x) {
    LaneSums sum;
    u32 non_finite;
    switch (format) {
    case FORMAT_E4M3: non_finite = sum_tiles_of<E4M3, Element>(packets, tile, sum); break;
    case FORMAT_E5M2: non_finite = sum_tiles_of<E5M2, Element>(packets, tile, sum); break;
    case FORMAT_INT8: non_finite = sum_tiles_of<Int8, Element>(packets, tile, sum); break;
    default: non_finite = sum_tiles_of<Auto, Element>(packets, tile, sum); break;
    }
    narrow<Element>(sum, non_finite, x);
}
