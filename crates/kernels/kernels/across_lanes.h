// Sums and maxima over the 16 lanes of each of the four blocks that a lane holds. With every exchange a
// lane hands over half of what it has and keeps the other half, so the result of block b ends in the lanes
// 4b to 4b + 3, its keepers, which compute its scale while the others compute those of theirs.
#pragma once

#include "elements.h"

DEVICE int kept_block() { return lane_of_block() >> 2; }

// The largest magnitude among a lane's elements of one block, as bits of the type. In the order of bits
// non-finite elements come last.
template <class Element> DEVICE u32 largest_held(const LaneElements<Element>& x, int held) {
    u32 most = 0;
    UNROLL for (int w = 0; w < Layout<Element>::WORDS; ++w)
        most = Layout<Element>::PER_WORD == 2 ? larger_halves(most, x.of[held][w] & 0x7fff7fffu)
                                              : larger(most, x.of[held][w] & 0x7fffffffu);
    return Layout<Element>::PER_WORD == 2 ? larger(most >> 16, most & 0xffffu) : most;
}

// The largest magnitude in the block that this lane keeps.
template <class Element> DEVICE u32 largest_magnitude(const LaneElements<Element>& x) {
    u32 most[HELD_BLOCKS];
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) most[held] = largest_held<Element>(x, held);
    bool upper = (lane_of_block() & 8) != 0;
    bool odd = (lane_of_block() & 4) != 0;
    u32 even_block = larger(upper ? most[2] : most[0], exchange<8>(upper ? most[0] : most[2]));
    u32 odd_block = larger(upper ? most[3] : most[1], exchange<8>(upper ? most[1] : most[3]));
    u32 kept = larger(odd ? odd_block : even_block, exchange<4>(odd ? even_block : odd_block));
    kept = larger(kept, exchange<2>(kept));
    return larger(kept, exchange<1>(kept));
}

// What each block's keeper number `KEEPER` (0 to 3) holds, for all lanes.
template <int KEEPER, class Number> DEVICE void from_keepers(Number value, Number* of_block) {
    of_block[0] = from_lane<KEEPER>(value);
    of_block[1] = from_lane<4 + KEEPER>(value);
    of_block[2] = from_lane<8 + KEEPER>(value);
    of_block[3] = from_lane<12 + KEEPER>(value);
}

// One step of a sum: keeps the half `upper` of the pairs and adds what the lane at MASK has of it.
template <int MASK> DEVICE float keep_half(float low, float high) {
    bool upper = (lane_of_block() & MASK) != 0;
    return (upper ? high : low) + exchange<MASK>(upper ? low : high);
}

// The sums of squared errors that decide between two ways to write a block, for way 0 in the even keepers
// and for way 1 in the odd ones. `quad` holds a lane's sums over 4 elements. The order is that of
// docs/wire-format.md: 32 sums, of which lane l of 16 has 2l and 2l + 1 where its elements are one run, and
// l and 16 + l where they are two.
template <bool ONE_RUN> DEVICE float error_sum(const float quad[HELD_BLOCKS][2][2]) {
    constexpr int PARTS = ONE_RUN ? 2 : 1;
    float pair[2][2][PARTS], one[2][PARTS];
    UNROLL for (int way = 0; way < 2; ++way)
        UNROLL for (int part = 0; part < PARTS; ++part) {
            float block[HELD_BLOCKS];
            UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
                block[held] = ONE_RUN ? quad[held][way][part] : quad[held][way][0] + quad[held][way][1];
            pair[0][way][part] = keep_half<8>(block[0], block[2]);
            pair[1][way][part] = keep_half<8>(block[1], block[3]);
            one[way][part] = keep_half<4>(pair[0][way][part], pair[1][way][part]);
        }
    if (ONE_RUN) {
        float first = keep_half<2>(one[0][0], one[0][PARTS - 1]);
        float second = keep_half<2>(one[1][0], one[1][PARTS - 1]);
        float sum = keep_half<1>(first, second);
        return sum + exchange<2>(sum);
    }
    float first = one[0][0] + exchange<2>(one[0][0]);
    float second = one[1][0] + exchange<2>(one[1][0]);
    return keep_half<1>(first, second);
}
