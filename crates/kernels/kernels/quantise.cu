// airamp_quantise_T: a buffer of elements becomes packets.
#include "elements.h"
#include "write_tile.h"

template <class Format, class Element>
DEVICE void quantise(const void* input, u64 count, void* packets, u64 packet_stride, u64 blocks_per_packet,
                     Tag tag, AirampStats* stats) {
    SHARED AirampStats group;
    SHARED Staging<Element> staging;
    begin_stats(&group, stats);
    Cut cut(count, blocks_per_packet);
    NO_UNROLL for (u32 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        load_elements<Element>((const typename Element::Bits*)input + tile.start, tile, staging, x);
        u8* packet = (u8*)packets + tile.packet * packet_stride;
        write_tile<Format, Element>(x, tile, tag, packet, {&group, stats != nullptr});
    }
    end_stats(&group, stats);
}

#define QUANTISE(Format, Element, format, T)                                                                 \
    KERNEL(3) airamp_quantise_##T##_##format(                                                                \
        const void* input, u64 count, void* packets, u64 packet_stride, u64 blocks_per_packet, u64 call,     \
        u64 part, AirampStats* stats) {                                                                      \
        quantise<Format, Element>(input, count, packets, packet_stride, blocks_per_packet, {call, part},     \
                                  stats);                                                                    \
    }
EACH_FORMAT_AND_TYPE(QUANTISE)
#undef QUANTISE
