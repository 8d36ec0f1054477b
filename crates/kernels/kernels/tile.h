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
// Error and signal are taken from every block whose index in its packet is a multiple of this.
constexpr u32 SAMPLED_EVERY = 256;

// A packet begins with its tag.
constexpr u32 TAG_BYTES = 16;

// Which call a packet belongs to, and which part of it it is: docs/wire-format.md, 'Tags'.
struct Tag {
    u64 call;
    u64 part;

    DEVICE Tag of_rank(u64 rank) const { return {call, part + rank}; }
    DEVICE Words4 words() const { return {{(u32)call, (u32)(call >> 32), (u32)part, (u32)(part >> 32)}}; }
};

struct LaneCodes { u32 of[HELD_BLOCKS][HELD / 4]; };

DEVICE u32 lane_in_warp() { return thread_in_group() % WARP; }
DEVICE u32 lane_of_block() { return thread_in_group() & 15; }
// Which of the two blocks that a warp has in hand at a time.
DEVICE u32 side() { return (thread_in_group() >> 4) & 1; }
DEVICE u32 warp_in_grid() {
    return group_in_grid() * (threads_in_group() / WARP) + thread_in_group() / WARP;
}
DEVICE u32 warps_in_grid() { return groups_in_grid() * (threads_in_group() / WARP); }

DEVICE u64 blocks_of(u64 count) { return count / BLOCK + (count % BLOCK != 0); }
DEVICE u64 tiles_of(u64 blocks) { return blocks / TILE_BLOCKS + (blocks % TILE_BLOCKS != 0); }

// One tile, and the packet that it is part of.
struct Tile {
    u32 packet;
    u32 index;  // within the packet
    bool whole;
    u32 count;  // elements: 1024 if it is whole, or what is left for the packet's last tile
    u64 start;  // its first element in the buffer
    u64 scale_words_at;  // in the packet

    // Of a packet that holds `elements` from `first` on.
    DEVICE Tile(u32 packet, u32 index, u64 first, u64 elements) : packet(packet), index(index) {
        u64 before = index * (u64)TILE;
        start = first + before;
        scale_words_at = TAG_BYTES + blocks_of(elements) * BLOCK + index * (u64)TILE_SCALES;
        whole = index < (u32)(elements / TILE);
        count = whole ? TILE : (u32)(elements % TILE);
    }

    DEVICE u64 codes_at() const { return TAG_BYTES + index * (u64)TILE; }
    DEVICE bool is_first() const { return index == 0; }
    DEVICE bool is_whole() const { return whole; }
    // Whether error and signal are taken from the tile's first block.
    DEVICE bool is_sampled() const { return index % (SAMPLED_EVERY / TILE_BLOCKS) == 0; }
    // The tile's block of this lane's side, `held` of 0 to 3.
    DEVICE u32 block(int held) const { return 2 * held + side(); }
    DEVICE bool has_block(int held) const { return block(held) * BLOCK < count; }
};

// A buffer cut into packets of equal blocks, the last one as long as it comes. There are less than 2^32
// tiles: no device has memory for more.
struct Cut {
    u64 count;
    u64 packet_count;  // elements of a packet that is not the last
    u32 tiles_per_packet;
    u32 tiles;

    DEVICE Cut(u64 count, u64 blocks_per_packet)
        : count(count), packet_count(0), tiles_per_packet(0), tiles(0) {
        u64 blocks = blocks_of(count);
        u64 per_packet = smaller(blocks_per_packet, blocks);
        if (per_packet == 0) return;
        packet_count = per_packet * BLOCK;
        tiles_per_packet = (u32)tiles_of(per_packet);
        tiles = (u32)(blocks / per_packet) * tiles_per_packet + (u32)tiles_of(blocks % per_packet);
    }
    DEVICE Tile tile(u32 number) const {
        // One packet is the usual case.
        if (number < tiles_per_packet) return Tile(0, number, 0, smaller(count, packet_count));
        u32 packet = number / tiles_per_packet;
        u64 first = packet * packet_count;
        return Tile(packet, number - packet * tiles_per_packet, first, smaller(count - first, packet_count));
    }
};

// A buffer in one packet.
struct Whole {
    u64 count;
    u32 tiles;

    DEVICE Whole(u64 count) : count(count), tiles((u32)tiles_of(blocks_of(count))) {}
    DEVICE Tile tile(u32 number) const { return Tile(0, number, 0, count); }
};

// Where a lane's elements lie in a block: one run of 8, or two of 4 that are 64 elements apart. In a buffer a
// run is 16 bytes. 16-bit elements are two to a word.
template <class Element> struct Layout {
    typedef typename Element::Bits Bits;
    static constexpr int RUN = Element::RUN;
    static constexpr int RUNS = HELD / RUN;
    static constexpr int PER_WORD = 4 / sizeof(Bits);
    static constexpr int WORDS = HELD / PER_WORD;
    static DEVICE u32 run_at(int run) { return run * (BLOCK / 2) + lane_of_block() * RUN; }
    static DEVICE u32 at(int i) { return run_at(i / RUN) + i % RUN; }
};

DEVICE bool is_aligned(const void* pointer) { return ((u64)pointer & 15) == 0; }
