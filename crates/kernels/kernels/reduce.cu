// airamp_reduce_T: the packets of all ranks become the packet of their sum: the two-shot's middle.
#include "tiles_ahead.h"
#include "write_tile.h"

constexpr int REDUCE_GROUPS = 3;
// Conversions by arithmetic leave no registers for more.
template <class Element>
constexpr bool IS_HEAVY = sizeof(typename Element::Bits) == 4 && !HAS_FP8_INSTRUCTIONS;
template <class Element> constexpr int REDUCE_IN_FLIGHT = IS_HEAVY<Element> ? 4 : 8;

// What other ranks sent behind the count is not ours to pass on.
template <class Element> DEVICE void clear_behind_the_end(const Tile& tile, LaneElements<Element>& x) {
    if (tile.is_whole()) return;
    rarely_here();
    UNROLL for (int held = 0; held < HELD_BLOCKS; ++held)
        UNROLL for (int i = 0; i < HELD; ++i)
            if (tile.block(held) * BLOCK + Layout<Element>::at(i) >= tile.count) x.set(held, i, 0);
}

template <class Format, class Element>
DEVICE void reduce(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average, Tag tag,
                   Tag out_tag, void* out_packet, AirampStats* stats) {
    SHARED AirampStats group;
    const Counts counts = {&group, stats != nullptr};
    RankPackets all = {(const u8*)packets, packet_stride, ranks, average ? 1.0f / (float)ranks : 1.0f, tag,
                       counts};
    Whole cut(count);
#if HAS_COPIES
    SHARED Places places;
    TilesAhead ahead(places, all, cut);
#endif
    begin_stats(&group, stats);
    if (warp_in_grid() < cut.tiles) check_tags(all);
    NO_UNROLL for (u32 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        // Else counters beside it take registers.
        if (!IS_HEAVY<Element>) forget(number);
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
#if HAS_COPIES
        bool done = tile.is_whole() && add_up<Format, Element>(all, ahead, x);
        finish_sum<Format, Element>(all, tile, done, x);
#else
        // Two ranks mostly add up with airamp_dequantise_sum_T.
        sum_tiles<Format, Element, REDUCE_IN_FLIGHT<Element>, false>(all, tile, x);
#endif
        clear_behind_the_end<Element>(tile, x);
        write_tile<Format, Element>(x, tile, out_tag, (u8*)out_packet, counts);
    }
    end_stats(&group, stats);
}

#define REDUCE(Format, Element, format, T)                                                                   \
    KERNEL(REDUCE_GROUPS) airamp_reduce_##T##_##format(                                                      \
        const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average, u64 call, u64 part,       \
        u64 out_call, u64 out_part, void* out_packet, AirampStats* stats) {                                  \
        reduce<Format, OfPackets<Element>::Type>(packets, packet_stride, ranks, count, average,              \
                                                 {call, part}, {out_call, out_part}, out_packet, stats);     \
    }
EACH_FORMAT_AND_TYPE(REDUCE)
#undef REDUCE
