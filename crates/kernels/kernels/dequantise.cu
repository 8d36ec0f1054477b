// airamp_dequantise_T: packets become a buffer of elements.
#include "elements.h"
#include "read_tile.h"

template <class Element>
DEVICE void dequantise(const void* packets, u64 packet_stride, u64 blocks_per_packet, u64 count, u32 format,
                       void* output) {
    SHARED Staging<Element> staging;
    Cut cut(count, blocks_per_packet);
    NO_UNROLL for (u64 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        RankPackets packet = {(const u8*)packets + tile.packet * packet_stride, 0, 1, 1.0f};
        sum_tiles<Element>(format, packet, tile, x);
        store_elements<Element>(x, tile, staging, (typename Element::Bits*)output + tile.start);
    }
}

#define DEQUANTISE(Element, name)                                                                            \
    KERNEL name(const void* packets, u64 packet_stride, u64 blocks_per_packet, u64 count, u32 format,        \
                void* output) {                                                                              \
        dequantise<Element>(packets, packet_stride, blocks_per_packet, count, format, output);               \
    }
DEQUANTISE(F16, airamp_dequantise_f16)
DEQUANTISE(Bf16, airamp_dequantise_bf16)
DEQUANTISE(F32, airamp_dequantise_f32)
#undef DEQUANTISE
