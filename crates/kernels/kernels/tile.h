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

struct LaneValues { float of[HELD_BLOCKS][HELD]; };
struct LaneCodes { u32 of[HELD_BLOCKS][HELD / 4]; };
struct alignas(16) Words4 { u32 of[4]; };
struct alignas(8) Words2 { u32 of[2]; };

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
    u64 scale_words_at;  // in the packet
    u32 blocks;  // 8, or fewer in the packet's last tile
    u32 count;  // elements

    // A tile of a packet with `left` elements from the tile's beginning to the packet's end.
    DEVICE Tile(u64 packet, u64 index, u64 left)
        : packet(packet), index(index), scale_words_at(index * TILE_SCALES + (index * TILE_BLOCKS + blocks_of(left)) * BLOCK),
          blocks((u32)smaller(blocks_of(left), (u64)TILE_BLOCKS)), count((u32)smaller(left, (u64)TILE)) {}

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
    u64 blocks_per_packet;
    u64 tiles_per_packet;

    DEVICE Cut(u64 count, u64 blocks) : count(count), blocks_per_packet(smaller(blocks, blocks_of(count))) {
        tiles_per_packet = tiles_of(blocks_per_packet);
    }
    DEVICE u64 tiles() const {
        if (blocks_per_packet == 0) return 0;
        u64 blocks = blocks_of(count);
        return blocks / blocks_per_packet * tiles_per_packet + tiles_of(blocks % blocks_per_packet);
    }
    // The first element of a tile.
    DEVICE u64 start(const Tile& tile) const { return tile.packet * blocks_per_packet * BLOCK + tile.index * TILE; }
    DEVICE Tile tile(u64 number) const {
        u64 packet = number < tiles_per_packet ? 0 : number / tiles_per_packet;
        u64 index = number - packet * tiles_per_packet;
        u64 in_packet = smaller(count - packet * blocks_per_packet * BLOCK, blocks_per_packet * BLOCK);
        return Tile(packet, index, in_packet - index * TILE);
    }
};

// Where a lane's elements lie in a block: runs of 16 bytes, 64 elements apart. So 16-bit elements are one
// run of 8, and binary32 ones are two runs of 4.
template <class Element> struct Layout {
    typedef typename Element::Bits Bits;
    static constexpr int RUN = 16 / sizeof(Bits);
    static constexpr int RUNS = HELD / RUN;
    static DEVICE u32 run_at(int run) { return run * (BLOCK / 2) + lane_of_block() * RUN; }
    static DEVICE u32 at(int i) { return run_at(i / RUN) + i % RUN; }
};

DEVICE bool is_aligned(const void* pointer) { return ((u64)pointer & 15) == 0; }
