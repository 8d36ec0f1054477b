// airamp_reduce_T: the packets of all ranks become the packet of their sum: the two-shot's middle.
#include "write_tile.h"

// What other ranks sent behind the count is not ours to pass on.
template <class Element> DEVICE void clear_behind_the_end(const Tile& tile, LaneElements<Element>& x) {
    if (tile.is_whole()) return;
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if (tile.block(held) * BLOCK + Layout<Element>::at(i) >= tile.count) x.set(held, i, 0);
}

template <class Element>
DEVICE void reduce(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 format, u32 average,
                   void* out_packet, AirampStats* stats) {
    SHARED AirampStats group;
    begin_stats(&group, stats);
    RankPackets all = {(const u8*)packets, packet_stride, ranks, average ? 1.0f / (float)ranks : 1.0f};
    Cut cut(count, ~0ull);
    NO_UNROLL for (u64 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        sum_tiles<Element>(format, all, tile, x);
        clear_behind_the_end<Element>(tile, x);
        write_tile<Element>(format, x, tile, (u8*)out_packet, stats == nullptr ? nullptr : &group);
    }
    end_stats(&group, stats);
}

#define REDUCE(Element, name)                                                                                \
    KERNEL name(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 format, u32 average,       \
                void* out_packet, AirampStats* stats) {                                                      \
        reduce<Element>(packets, packet_stride, ranks, count, format, average, out_packet, stats);           \
    }
REDUCE(F16, airamp_reduce_f16)
REDUCE(Bf16, airamp_reduce_bf16)
REDUCE(F32, airamp_reduce_f32)
#undef REDUCE
