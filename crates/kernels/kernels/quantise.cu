// airamp_quantise_T: a buffer of elements becomes packets.
#include "elements.h"
#include "write_tile.h"

template <class Element>
DEVICE void quantise(const void* input, u64 count, void* packets, u64 packet_stride, u64 blocks_per_packet,
                     u32 format, AirampStats* stats) {
    SHARED AirampStats group;
    SHARED Staging<Element> staging;
    begin_stats(&group, stats);
    Cut cut(count, blocks_per_packet);
    NO_UNROLL for (u64 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        load_elements<Element>((const typename Element::Bits*)input + tile.start, tile, staging, x);
        u8* packet = (u8*)packets + tile.packet * packet_stride;
        write_tile<Element>(format, x, tile, packet, stats == nullptr ? nullptr : &group);
    }
    end_stats(&group, stats);
}

#define QUANTISE(Element, name)                                                                              \
    KERNEL name(const void* input, u64 count, void* packets, u64 packet_stride, u64 blocks_per_packet,       \
                u32 format, AirampStats* stats) {                                                            \
        quantise<Element>(input, count, packets, packet_stride, blocks_per_packet, format, stats);           \
    }
QUANTISE(F16, airamp_quantise_f16)
QUANTISE(Bf16, airamp_quantise_bf16)
QUANTISE(F32, airamp_quantise_f32)
#undef QUANTISE
