// Maxima and sums over the 16 lanes of each of the four blocks that a lane holds. With an exchange a lane
// hands over half of what it has and keeps the other half, so the result of block b ends in the lanes
// 4b to 4b + 3, its keepers, which compute its scale while the others compute those of theirs.
#pragma once

#include "elements.h"

DEVICE int kept_block() { return lane_of_block() >> 2; }

// The largest magnitudes of a lane's elements of two blocks, as bits of a 16-bit type: one in each half.
template <class Element> DEVICE u32 largest_of_two(const LaneElements<Element>& x, int held) {
    u32 most[2] = {0, 0};
    UNROLL for (int b = 0; b < 2; ++b)
        UNROLL for (int w = 0; w < Layout<Element>::WORDS; ++w)
            most[b] = w == 0 ? Element::magnitudes(x.of[held + b][0])
                             : Element::larger_magnitudes(most[b], x.of[held + b][w]);
    return larger_halves(bytes_of<0x5410>(most[0], most[1]), bytes_of<0x7632>(most[0], most[1]));
}

// The largest magnitude of a lane's elements of one block, for 32-bit types.
template <class Element> DEVICE u32 largest_of_one(const LaneElements<Element>& x, int held) {
    u32 most = Element::magnitudes(x.of[held][0]);
    UNROLL for (int w = 1; w < Layout<Element>::WORDS; ++w)
        most = Element::larger_magnitudes(most, x.of[held][w]);
    return most;
}

// The largest magnitude in the block that this lane keeps, as bits. Those of non-finite elements come last.
template <class Element> DEVICE u32 largest_magnitude(const LaneElements<Element>& x) {
    bool upper = (lane_of_block() & 8) != 0;
    bool odd = (lane_of_block() & 4) != 0;
    if constexpr (Layout<Element>::PER_WORD == 2) {
        u32 low = largest_of_two<Element>(x, 0), high = largest_of_two<Element>(x, 2);
        u32 kept = larger_halves(upper ? high : low, exchange<8>(upper ? low : high));
        kept = larger_halves(kept, exchange<4>(kept));
        kept = larger_halves(kept, exchange<2>(kept));
        kept = larger_halves(kept, exchange<1>(kept));
        return odd ? kept >> 16 : kept & 0xffffu;
    } else {
        u32 most[HELD_BLOCKS];
        UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) most[held] = largest_of_one<Element>(x, held);
        u32 even_block = larger(upper ? most[2] : most[0], exchange<8>(upper ? most[0] : most[2]));
        u32 odd_block = larger(upper ? most[3] : most[1], exchange<8>(upper ? most[1] : most[3]));
        u32 kept = larger(odd ? odd_block : even_block, exchange<4>(odd ? even_block : odd_block));
        kept = larger(kept, exchange<2>(kept));
        return larger(kept, exchange<1>(kept));
    }
}

// What each block's keepers hold, for all lanes.
template <class Number> DEVICE void from_keepers(Number value, Number* of_block) {
    of_block[0] = from_lane<0>(value);
    of_block[1] = from_lane<4>(value);
    of_block[2] = from_lane<8>(value);
    of_block[3] = from_lane<12>(value);
}

// One bit per block that the lane holds, from what its keepers say.
DEVICE u32 votes_of_keepers(bool value) {
    u32 votes = votes_in_warp(value) >> (16 * side());
    return (votes & 1) | ((votes >> 3) & 2) | ((votes >> 6) & 4) | ((votes >> 9) & 8);
}

// The sum over the block that this lane keeps, of numbers that each lane has for its four.
DEVICE i32 sum_over_block(const i32* of_block) {
    bool upper = (lane_of_block() & 8) != 0;
    bool odd = (lane_of_block() & 4) != 0;
    u32 even_block = upper ? of_block[2] : of_block[0];
    u32 odd_block = upper ? of_block[3] : of_block[1];
    even_block += exchange<8>((u32)(upper ? of_block[0] : of_block[2]));
    odd_block += exchange<8>((u32)(upper ? of_block[1] : of_block[3]));
    u32 kept = (odd ? odd_block : even_block) + exchange<4>(odd ? even_block : odd_block);
    kept += exchange<2>(kept);
    return (i32)(kept + exchange<1>(kept));
}
