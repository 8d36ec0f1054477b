// airamp_dequantise_sum_T: the packets of all ranks become the elements of their sum: the one-shot's end.
#include "elements.h"
#include "read_tile.h"

template <class Element>
DEVICE void dequantise_sum(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 format,
                           u32 average, void* output) {
    SHARED Staging<Element> staging;
    RankPackets all = {(const u8*)packets, packet_stride, ranks, average ? 1.0f / (float)ranks : 1.0f};
    Cut cut(count, ~0ull);
    NO_UNROLL for (u64 number = warp_in_grid(); number < cut.tiles; number += warps_in_grid()) {
        Tile tile = cut.tile(number);
        LaneElements<Element> x;
        sum_tiles<Element>(format, all, tile, x);
        store_elements<Element>(x, tile, staging, (typename Element::Bits*)output + tile.start);
    }
}

#define DEQUANTISE_SUM(Element, name)                                                                        \
    KERNEL name(const void* packets, u64 packet_stride, u32 ranks, u64 count, u32 format, u32 average,       \
                void* output) {                                                                              \
        dequantise_sum<Element>(packets, packet_stride, ranks, count, format, average, output);              \
    }
DEQUANTISE_SUM(F16, airamp_dequantise_sum_f16)
DEQUANTISE_SUM(Bf16, airamp_dequantise_sum_bf16)
DEQUANTISE_SUM(F32, airamp_dequantise_sum_f32)
#undef DEQUANTISE_SUM
