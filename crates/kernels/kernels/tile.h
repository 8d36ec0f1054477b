// How work is cut and where its bytes lie. A tile is eight blocks in a row of one packet, the work of one
// warp: 16 lanes to a block, two blocks at a time, so that every lane holds 8 elements of 4 blocks.
// The scale words of a tile are 16 bytes, and those behind a packet's last block are its padding.
#pragma once

#include "element_types.h"

constexpr u32 BLOCK = 128;
constexpr u32 TILE_BLOCKS = 8;
constexpr u32 TILE = TILE_BLOCKS * BLOCK;
constexpr u32 TILE_SCALES = TILE_BLOCKS * 2;
constexpr int HELD_BLOCKS = 4;
constexpr int HELD = 8;

struct LaneCodes { u32 of[HELD_BLOCKS][HELD / 4]; };

DEVICE u32 lane_of_block() { return thread_in_group() & 15; }
// Which of the two blocks that a warp has in hand at a time.
DEVICE u32 side() { return (thread_in_group() >> 4) & 1; }
DEVICE u64 warp_in_grid() { return ((u64)group_in_grid() * threads_in_group() + thread_in_group()) / WARP; }
DEVICE u64 warps_in_grid() { return (u64)groups_in_grid() * threads_in_group() / WARP; }

DEVICE u64 blocks_of(u64 count) { return count / BLOCK + (count % BLOCK != 0); }
DEVICE u64 tiles_of(u64 blocks) { return blocks / TILE_BLOCKS + (blocks % TILE_BLOCKS != 0); }

// One tile, and the packet that it is part of.
struct Tile {
    u64 packet;
    u64 index;  // within the packet
    u64 start;  // its first element in the buffer
    u64 scale_words_at;  // in the packet
    u32 blocks;  // 8, or fewer in the packet's last tile
    u32 count;  // elements

    // `left` elements lie between the tile's beginning and the packet's end.
    DEVICE Tile(u64 packet, u64 index, u64 start, u64 left) : packet(packet), index(index), start(start) {
        u64 blocks_left = blocks_of(left);
        scale_words_at = (first_block() + blocks_left) * BLOCK + index * TILE_SCALES;
        blocks = (u32)smaller(blocks_left, (u64)TILE_BLOCKS);
        count = (u32)smaller(left, (u64)TILE);
    }

    DEVICE u64 first_block() const { return index * TILE_BLOCKS; }
    DEVICE u64 codes_at() const { return index * TILE; }
    DEVICE bool is_whole() const { return count == TILE; }
    // The tile's block of this lane's side, `held` of 0 to 3.
    DEVICE u32 block(int held) const { return 2 * held + side(); }
    DEVICE bool has_block(int held) const { return block(held) < blocks; }
};

// A buffer cut into packets of equal blocks, the last one as long as it comes.
struct Cut {
    u64 count;
    u64 packet_count;  // elements of a packet that is not the last
    u64 tiles_per_packet;
    u64 tiles;

    DEVICE Cut(u64 count, u64 blocks_per_packet)
        : count(count), packet_count(0), tiles_per_packet(0), tiles(0) {
        u64 blocks = blocks_of(count);
        u64 per_packet = smaller(blocks_per_packet, blocks);
        if (per_packet == 0) return;
        packet_count = per_packet * BLOCK;
        tiles_per_packet = tiles_of(per_packet);
        tiles = blocks / per_packet * tiles_per_packet + tiles_of(blocks % per_packet);
    }
    DEVICE Tile tile(u64 number) const {
        // Divisions and products of 64 bits take a while, and one packet is the usual case.
        if (number < tiles_per_packet)
            return Tile(0, number, number * TILE, smaller(count, packet_count) - number * TILE);
        u64 packet = number / tiles_per_packet;
        u64 index = number - packet * tiles_per_packet;
        u64 first = packet * packet_count;
        return Tile(packet, index, first + index * TILE, smaller(count - first, packet_count) - index * TILE);
    }
};

// Where a lane's elements lie in a block: runs of 16 bytes, 64 elements apart. So 16-bit elements are one
// run of 8, two to a word, and binary32 ones are two runs of 4.
template <class Element> struct Layout {
    typedef typename Element::Bits Bits;
    static constexpr int RUN = 16 / sizeof(Bits);
    static constexpr int RUNS = HELD / RUN;
    static constexpr int PER_WORD = 4 / sizeof(Bits);
    static constexpr int WORDS = HELD / PER_WORD;
    static DEVICE u32 run_at(int run) { return run * (BLOCK / 2) + lane_of_block() * RUN; }
    static DEVICE u32 at(int i) { return run_at(i / RUN) + i % RUN; }
};

DEVICE bool is_aligned(const void* pointer) { return ((u64)pointer & 15) == 0; }
