// airamp_dequantise_sum_T: the packets of all ranks become the elements of their sum: the one-shot's end.
#include "elements.h"
#include "read_tile.h"

template <class Format, class Element>
DEVICE void dequantise_sum(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average,
                            Tag tag, void* output, AirampStats* stats) {
    SHARED AirampStats group;
    SHARED Staging<Element> staging;
    begin_stats(&group, stats);
    RankPackets all = {(const u8*)packets, packet_stride, ranks, average ? 1.0f / (float)ranks : 1.0f,
                       tag, {&group, stats != nullptr}};
    Whole cut(count);
    if (warp_in_grid() < cut.tiles) check_tags(all);
    NO_UNROLL for (u32 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        // Else counters beside it take registers.
        forget(number);
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        sum_tiles<Format, Element, 8, true>(all, tile, x);
        store_elements<Element>(x, tile, staging, (typename Element::Bits*)output + tile.start);
    }
    end_stats(&group, stats);
}

#define DEQUANTISE_SUM(Format, Element, format, T)                                                           \
    KERNEL(3) airamp_dequantise_sum_##T##_##format(                                                          \
        const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 average, u64 call, u64 part,       \
        void* output, AirampStats* stats) {                                                                  \
        dequantise_sum<Format, Element>(packets, packet_stride, ranks, count, average, {call, part},         \
                                        output, stats);                                                      \
    }
EACH_FORMAT_AND_TYPE(DEQUANTISE_SUM)
#undef DEQUANTISE_SUM
