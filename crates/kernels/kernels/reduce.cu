// airamp_reduce_T: the packets of all ranks become the packet of their sum: the two-shot's middle.
#include "measure_tile.h"

// What the sum is as elements of the user's type, read back. What others sent behind the count is not ours
// to pass on.
template <class Element> DEVICE void as_elements(LaneValues& x, u32 non_finite, const Tile& tile) {
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            x.of[held][i] = Element::widen(Element::narrow(x.of[held][i]));
    if (non_finite == 0 && tile.is_whole()) return;
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i) {
            if ((non_finite >> (HELD * held + i)) & 1) x.of[held][i] = float_of(INFINITE);
            if (tile.block(held) * BLOCK + Layout<Element>::at(i) >= tile.count) x.of[held][i] = 0.0f;
        }
}

template <class Element>
DEVICE void reduce(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 format, u32 average,
                   void* out_packet, AirampStats* stats) {
    SHARED AirampStats group;
    begin_stats(&group, stats);
    RankPackets all = {(const u8*)packets, packet_stride, ranks, average ? 1.0f / (float)ranks : 1.0f};
    Cut cut(count, ~0ull);
    u64 tiles = cut.tiles();
    NO_UNROLL for (u64 number = warp_in_grid(); number < tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneValues sum;
        u32 non_finite = sum_tiles<Element>(format, all, tile, sum);
        as_elements<Element>(sum, non_finite, tile);
        write_tile<Element>(format, sum, tile, (u8*)out_packet, stats == nullptr ? nullptr : &group);
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
