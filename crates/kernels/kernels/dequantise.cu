// airamp_dequantise_T: packets become a buffer of elements.
#include "elements.h"
#include "read_tile.h"

template <class Format, class Element>
DEVICE void dequantise(const void* packets, u64 packet_stride, u64 blocks_per_packet, u64 count,
                       Tag tag, void* output, AirampStats* stats) {
    SHARED AirampStats group;
    SHARED Staging<Element> staging;
    begin_stats(&group, stats);
    Cut cut(count, blocks_per_packet);
    NO_UNROLL for (u32 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        RankPackets packet = {(const u8*)packets + tile.packet * packet_stride, 0, 1, 1.0f,
                              tag.of_rank(tile.packet), {&group, stats != nullptr}};
        read_tile<Format, Element>(packet, tile, x);
        store_elements<Element>(x, tile, staging, (typename Element::Bits*)output + tile.start);
    }
    end_stats(&group, stats);
}

#define DEQUANTISE(Format, Element, format, T)                                                               \
    KERNEL(3) airamp_dequantise_##T##_##format(                                                              \
        const void* packets, u64 packet_stride, u64 blocks_per_packet, u64 count, u64 call, u64 part,        \
        void* output, AirampStats* stats) {                                                                  \
        dequantise<Format, Element>(packets, packet_stride, blocks_per_packet, count, {call, part}, output,  \
                                    stats);                                                                  \
    }
EACH_FORMAT_AND_TYPE(DEQUANTISE)
#undef DEQUANTISE
