// The tiles of all ranks' packets on their way into shared memory while a warp works on those before them, so
// that it neither waits for memory nor holds registers for what is under way.
#pragma once

#include "read_tile.h"

#if HAS_COPIES

// What one rank's packet has of a tile.
struct alignas(16) RankTile {
    u8 codes[TILE];
    u8 scale_words[TILE_SCALES];
};

// The places of a warp: one is read, the others are under way.
constexpr u32 PLACES = 4;
struct Places {
    RankTile of[GROUP / WARP][PLACES];

    DEVICE RankTile* own() { return of[thread_in_group() / WARP]; }
};

// Hands a warp what its tiles are made of, in the order of tiles and of ranks. Whole tiles only: behind others a
// packet ends.
class TilesAhead {
    RankTile* places;
    const RankPackets& packets;
    u64 scale_words_at;
    u32 whole_tiles;
    // What is asked for next: the rank's packet, from this lane's 16 bytes on, and the tile.
    const u8* packet;
    u32 rank;
    u32 number;
    u32 asked;

public:
    DEVICE TilesAhead(Places& all, const RankPackets& packets, const Whole& cut)
        : places(all.own()), packets(packets), scale_words_at(TAG_BYTES + blocks_of(cut.count) * BLOCK),
          whole_tiles((u32)(cut.count / TILE)), packet(from_first()), rank(0), number(warp_in_grid()), asked(0) {
        UNROLL for (u32 i = 0; i + 1 < PLACES; ++i) ask();
    }

    // The next rank's tile, as this lane reads it. What was given before is gone.
    template <class Element> DEVICE TileBytes next() {
        u32 place = (asked + 1) % PLACES;
        wait_for_copies<PLACES - 2>();
        wait_for_warp();
        ask();
        const RankTile& tile = places[place];
        return {tile.codes + side() * BLOCK + Layout<Element>::run_at(0), tile.scale_words};
    }

private:
    DEVICE const u8* from_first() const { return packets.first + lane_in_warp() * sizeof(Words4); }

    DEVICE void ask() {
        RankTile& tile = places[asked % PLACES];
        const u8* codes = packet + TAG_BYTES + number * (u64)TILE;
        u32 at = lane_in_warp() * sizeof(Words4);
        bool more = number < whole_tiles;
        begin_copy(tile.codes + at, codes, more);
        begin_copy(tile.codes + TILE / 2 + at, codes + TILE / 2, more);
        begin_copy(tile.scale_words, packet + scale_words_at + number * (u64)TILE_SCALES, more && at == 0);
        end_of_copies();
        ++asked;
        ++rank;
        bool last = rank == packets.ranks;
        packet = last ? from_first() : packet + packets.stride;
        number += last ? warps_in_grid() : 0;
        rank = last ? 0 : rank;
    }
};

// Adds up the packets of a whole tile in the order of the ranks. Returns false if a block is not plain; the sums
// mean nothing then.
template <class Format, class Element>
DEVICE bool add_up(const RankPackets& packets, TilesAhead& ahead, LaneElements<Element>& x) {
    float sum[HELD_BLOCKS][HELD];
    bool plain = packets.has_plain_factor();
    TileBytes first = ahead.next<Element>();
    plain = add_blocks<Format, Element, 1, HELD_BLOCKS, true>(first, 0, packets, sum) && plain;
    NO_UNROLL for (u32 rank = 1; rank < packets.ranks; ++rank) {
        TileBytes from = ahead.next<Element>();
        plain = add_blocks<Format, Element, 1, HELD_BLOCKS, false>(from, 0, packets, sum) && plain;
    }
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held) narrow<Element>(sum[held], held, x);
    return plain;
}

#endif
