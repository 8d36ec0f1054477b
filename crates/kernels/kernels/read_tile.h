// Reading a tile of packets: every code times its block's scale, kept within the range of the element
// type, and added up over the ranks.
#pragma once

#include "codes.h"
#include "elements.h"
#include "formats.h"
#include "stats.h"

// Where the conversions of codes keep NaN, with the bits that are wanted. Elsewhere what a non-finite code
// becomes on the way means nothing: it is noted, and is NaN in the end.
constexpr bool KEEPS_NAN = HAS_FP8_INSTRUCTIONS;

// Packets that hold the same elements, one per rank.
struct RankPackets {
    const u8* first;
    u64 stride;
    u32 ranks;
    float factor;  // of every decoded value; NaN if one of the packets is known to be foreign
    Tag tag;  // of the first packet
    Counts counts;  // of foreign packets

    // With these a product with the scale stays exact: the factor may go into the scale.
    DEVICE bool has_plain_factor() const { return (bits_of(factor) & 0x7fffffu) == 0; }
    DEVICE const u8* of_rank(u32 rank) const { return first + rank * stride; }
    DEVICE bool one_is_foreign() const { return factor != factor; }
    DEVICE bool is_foreign(u32 rank) const {
        const u64* found = (const u64*)of_rank(rank);
        return found[0] != tag.call || found[1] != tag.part + rank;
    }
};

// One bit per element whose code is that of a non-finite one. Rare, so short rather than fast.
template <class Codes> DEVICE u32 non_finite_in(const BlockCodes& in) {
    u32 marks = Codes::non_finite_marks(in.of[0]) | Codes::non_finite_marks(in.of[1]);
    if ((marks & 0x80808080u) == 0) return 0;
    rarely_here();
    u64 all = in.of[0] | ((u64)in.of[1] << 32);
    u32 found = 0;
    NO_UNROLL for (int i = 0; i < HELD; ++i)
        found |= ((Codes::non_finite_marks((u32)(all >> (8 * i)) & 0xffu) >> 7) & 1) << i;
    return found;
}

// The codes of a block that is not marked as INT8.
template <class Format> struct FloatCodes { typedef Format Of; };
template <> struct FloatCodes<MostlyInt8> { typedef E4M3 Of; };
template <> struct FloatCodes<Auto> { typedef E4M3 Of; };

template <class Format> struct BlockReader {
    typedef typename FloatCodes<Format>::Of Float;

    static DEVICE bool is_int8(const BlockCodes& in) {
        return MARKED<Format> && (bits_of(in.signed_scale) >> 31) != 0;
    }
    // What a lane's 8 codes stand for under the scale 1.
    static DEVICE void decode(const BlockCodes& in, float* q) {
        if (is_int8(in)) {
            Int8::decode(in.of[0], q);
            Int8::decode(in.of[1], q + 4);
        } else {
            Float::decode(in.of[0], q);
            Float::decode(in.of[1], q + 4);
        }
    }
    // Whether no value can exceed the range of an element type.
    static DEVICE bool is_plain(const BlockCodes& in) {
        return scale_of(in.signed_scale) <= Float::plain_scale();
    }
    // Adds a plain block, or makes it the sum if it is the FIRST. The product is exact, so it may be fused.
    template <bool FIRST> static DEVICE void add(const BlockCodes& in, float factor, float* sum) {
        float q[HELD], scale = scale_of(in.signed_scale) * factor;
        decode(in, q);
        UNROLL for (int i = 0; i < HELD; ++i)
            sum[i] = FIRST ? q[i] * scale : multiply_add(q[i], scale, sum[i]);
    }
    // The same of a block that is marked as INT8: its scale has a sign.
    template <bool FIRST> static DEVICE void add_int8(const BlockCodes& in, float factor, float* sum) {
        float scale = in.signed_scale * -factor;
        Int8::add<FIRST>(in.of[0], scale, sum);
        Int8::add<FIRST>(in.of[1], scale, sum + 4);
    }
    // Whether blocks are INT8 and plain, by the largest of their signed scales' bits as signed integers: what
    // is marked is negative, and smaller the smaller its scale.
    static DEVICE bool are_plain_int8(i32 largest) {
        return MARKED<Format> && largest <= (i32)(bits_of(Int8::plain_scale()) | 0x80000000u);
    }
    // Adds any block, by the letter of docs/wire-format.md.
    template <class Element> static DEVICE void add_exactly(const BlockCodes& in, float factor, float* sum) {
        float q[HELD], scale = scale_of(in.signed_scale);
        decode(in, q);
        UNROLL for (int i = 0; i < HELD; ++i) sum[i] += within(q[i] * scale, Element::largest()) * factor;
    }
    static DEVICE u32 non_finite(const BlockCodes& in) { return is_int8(in) ? 0 : non_finite_in<Float>(in); }
};

// A lane's sums as elements of the user's type.
template <class Element> DEVICE void narrow(const float* sum, int held, LaneElements<Element>& x) {
    typedef Layout<Element> Layout;
    UNROLL for (int w = 0; w < Layout::WORDS; ++w) {
        if constexpr (Layout::PER_WORD == 1) x.of[held][w] = bits_of(sum[w]);
        else x.of[held][w] = Element::narrow(sum[2 * w], sum[2 * w + 1]);
    }
}

template <class Element> DEVICE void set_not_a_number(u32 which, LaneElements<Element>& x) {
    if (which == 0) return;
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if ((which >> (HELD * held + i)) & 1) x.set(held, i, Element::NOT_A_NUMBER);
}

template <int BLOCKS> DEVICE void clear(float sum[BLOCKS][HELD]) {
    // -0 and not +0: it leaves the sign of a first summand that is zero alone.
    UNROLL for (int b = 0; b < BLOCKS; ++b)
        UNROLL for (int i = 0; i < HELD; ++i) sum[b][i] = -0.0f;
}

// Adds a number of blocks of RANKS packets to the sums, all of which are asked for before the first is used.
// FIRST: those of rank 0 are among them, and the sums begin with them. Returns false if one is not plain; the
// sums mean nothing then.
template <class Format, class Element, int RANKS, int BLOCKS, bool FIRST>
DEVICE bool add_blocks(TileBytes from, int held, const RankPackets& packets, float sum[BLOCKS][HELD]) {
    typedef BlockReader<Format> Reader;
    BlockCodes in[RANKS][BLOCKS];
    u32 scale_words[RANKS][BLOCKS];
    UNROLL for (int r = 0; r < RANKS; ++r) {
        load_scale_words<BLOCKS>(from, held, scale_words[r]);
        UNROLL for (int b = 0; b < BLOCKS; ++b) load_codes<Element>(from, held + b, in[r][b]);
        from = from.behind(packets.stride);
    }
    i32 largest = (i32)0x80000000;
    UNROLL for (int r = 0; r < RANKS; ++r)
        UNROLL for (int b = 0; b < BLOCKS; ++b) {
            u32 bits = half_on_top(scale_words[r][b], side());
            in[r][b].signed_scale = float_of(bits);
            largest = larger(largest, (i32)bits);
        }
    if (MARKED<Format> && !any_in_warp(!Reader::are_plain_int8(largest))) {
        UNROLL for (int r = 0; r < RANKS; ++r)
            UNROLL for (int b = 0; b < BLOCKS; ++b) {
                if (FIRST && r == 0) Reader::template add_int8<true>(in[r][b], packets.factor, sum[b]);
                else Reader::template add_int8<false>(in[r][b], packets.factor, sum[b]);
            }
        return true;
    }
    bool plain = true;
    UNROLL for (int r = 0; r < RANKS; ++r)
        UNROLL for (int b = 0; b < BLOCKS; ++b) {
            if (MARKED<Format>) plain = plain && Reader::is_plain(in[r][b]);
            if (FIRST && r == 0) Reader::template add<true>(in[r][b], packets.factor, sum[b]);
            else Reader::template add<false>(in[r][b], packets.factor, sum[b]);
        }
    return MARKED<Format> ? plain : float_of((u32)largest) <= Reader::Float::plain_scale();
}

// Adds up the packets of a whole tile in the order of the ranks, RANKS of them at a time, and as many blocks
// that IN_FLIGHT accesses are under way. There are exactly RANKS of them, unless that is 4. Returns as above.
template <class Format, class Element, int RANKS, int IN_FLIGHT>
DEVICE bool add_up(const RankPackets& packets, const Tile& tile, LaneElements<Element>& x) {
    constexpr int BLOCKS = IN_FLIGHT / RANKS;
    bool plain = packets.has_plain_factor();
    const TileBytes first = TileBytes::of<Element>(packets.first, tile);
    UNROLL for (int held = 0; held < HELD_BLOCKS; held += BLOCKS) {
        float sum[BLOCKS][HELD];
        if (packets.ranks >= RANKS) {
            plain = add_blocks<Format, Element, RANKS, BLOCKS, true>(first, held, packets, sum) && plain;
        } else {
            rarely_here();
            clear<BLOCKS>(sum);
        }
        if constexpr (RANKS == 4) {
            u32 rank = packets.ranks >= 4 ? 4 : 0;
            NO_UNROLL for (; rank + 4 <= packets.ranks; rank += 4) {
                forget(rank);
                TileBytes from = first.behind(rank * packets.stride);
                plain = add_blocks<Format, Element, 4, BLOCKS, false>(from, held, packets, sum) && plain;
            }
            NO_UNROLL for (; rank < packets.ranks; ++rank) {
                forget(rank);
                TileBytes from = first.behind(rank * packets.stride);
                plain = add_blocks<Format, Element, 1, BLOCKS, false>(from, held, packets, sum) && plain;
            }
        }
        UNROLL for (int b = 0; b < BLOCKS; ++b) narrow<Element>(sum[b], held + b, x);
    }
    return plain;
}

// The same for any tile and any block, one at a time.
template <class Format, class Element>
DEVICE void add_up_exactly(const RankPackets& packets, const Tile& tile, LaneElements<Element>& x) {
    rarely_here();
    TileBytes first = TileBytes::of<Element>(packets.first, tile);
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) {
        float sum[1][HELD];
        clear<1>(sum);
        NO_UNROLL for (u32 rank = 0; rank < packets.ranks && tile.has_block(held); ++rank) {
            TileBytes from = first.behind(rank * packets.stride);
            BlockCodes in;
            load_codes<Element>(from, held, in);
            in.signed_scale = from.signed_scale(held);
            BlockReader<Format>::template add_exactly<Element>(in, packets.factor, sum[0]);
        }
        narrow<Element>(sum[0], held, x);
    }
}

// Where conversions do not keep NaN: one bit per element of which a rank's code is that of a non-finite one.
template <class Format, class Element>
DEVICE u32 non_finite_elements(const RankPackets& packets, const Tile& tile) {
    TileBytes first = TileBytes::of<Element>(packets.first, tile);
    u32 found = 0;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        NO_UNROLL for (u32 rank = 0; rank < packets.ranks && tile.has_block(held); ++rank) {
            TileBytes from = first.behind(rank * packets.stride);
            BlockCodes in;
            load_codes<Element>(from, held, in);
            in.signed_scale = from.signed_scale(held);
            found |= BlockReader<Format>::non_finite(in) << (HELD * held);
        }
    return found;
}

// The tags of up to 32 ranks from `first` on, one to a lane.
struct LaneTag {
    const u8* packet;
    Words4 wanted;

    DEVICE LaneTag(u32 first, const RankPackets& packets) {
        u32 rank = first + lane_in_warp();
        rank = rank < packets.ranks ? rank : 0;
        packet = packets.of_rank(rank);
        wanted = packets.tag.of_rank(rank).words();
    }
    // Lanes without a rank of their own repeat what that of rank 0 says.
    DEVICE bool is_foreign() const {
        Words4 found = load((const Words4*)packet);
        return ((found.of[0] ^ wanted.of[0]) | (found.of[1] ^ wanted.of[1]) |
                (found.of[2] ^ wanted.of[2]) | (found.of[3] ^ wanted.of[3])) != 0;
    }
};

// Looks for foreign packets. A warp does it once and not for every tile, since it waits for the answer.
DEVICE void check_tags(RankPackets& packets) {
    u32 foreign = 0;
    NO_UNROLL for (u32 rank = 0; rank < packets.ranks; rank += WARP)
        foreign |= votes_in_warp(LaneTag(rank, packets).is_foreign());
    if (foreign != 0) packets.factor = float_of(F32::NOT_A_NUMBER);
}

// One foreign packet makes all of the sum NaN. Rare, so short rather than fast.
template <class Element>
DEVICE void spoil(const RankPackets& packets, const Tile& tile, LaneElements<Element>& x) {
    rarely_here();
    set_not_a_number<Element>(~0u, x);
    if (!packets.counts.wanted || !tile.is_first() || lane_in_warp() != 0) return;
    u64 foreign = 0;
    NO_UNROLL for (u32 rank = 0; rank < packets.ranks; ++rank) foreign += packets.is_foreign(rank);
    add_atomically(&packets.counts.group->foreign, foreign);
}

// Of a sum that is `done`, or has to be done by the letter: what is not a number.
template <class Format, class Element>
DEVICE void finish_sum(const RankPackets& packets, const Tile& tile, bool done, LaneElements<Element>& x) {
    if (!done) add_up_exactly<Format, Element>(packets, tile, x);
    if (!KEEPS_NAN) set_not_a_number<Element>(non_finite_elements<Format, Element>(packets, tile), x);
    if (packets.one_is_foreign()) spoil<Element>(packets, tile, x);
}

// The sum of the ranks' tiles, of which each lane asks for IN_FLIGHT blocks at a time (4 or 8). FOR_TWO:
// two ranks are to be as fast as more. Tags have been checked.
template <class Format, class Element, int IN_FLIGHT, bool FOR_TWO>
DEVICE void sum_tiles(const RankPackets& packets, const Tile& tile, LaneElements<Element>& x) {
    bool done = false;
    if (tile.is_whole()) {
        if (FOR_TWO && packets.ranks == 2) done = add_up<Format, Element, 2, IN_FLIGHT>(packets, tile, x);
        else done = add_up<Format, Element, 4, IN_FLIGHT>(packets, tile, x);
    }
    finish_sum<Format, Element>(packets, tile, done, x);
}

// The same of a single packet.
template <class Format, class Element>
DEVICE void read_tile(const RankPackets& packet, const Tile& tile, LaneElements<Element>& x) {
    bool done = tile.is_whole() && add_up<Format, Element, 1, HELD_BLOCKS>(packet, tile, x);
    if (!done) add_up_exactly<Format, Element>(packet, tile, x);
    if (!KEEPS_NAN) set_not_a_number<Element>(non_finite_elements<Format, Element>(packet, tile), x);
    if (packet.is_foreign(0)) spoil<Element>(packet, tile, x);
}
