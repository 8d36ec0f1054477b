// The four formats of a packet. Each has kernels of its own.
#pragma once

#include "code_types.h"

// Two formats whose blocks say by a mark whether their codes are INT8 or E4M3, and which are read alike.
// Every block INT8, but for those with an element that is not finite:
struct MostlyInt8 {};
// Each block in the one that suits it:
struct Auto {};

template <class Format> constexpr bool MARKED = false;
template <> constexpr bool MARKED<MostlyInt8> = true;
template <> constexpr bool MARKED<Auto> = true;

// The kernels of one operation, by the names of their format and element type.
#define EACH_TYPE(KERNELS, Format, format)                                                                   \
    KERNELS(Format, F16, format, f16)                                                                        \
    KERNELS(Format, Bf16, format, bf16)                                                                      \
    KERNELS(Format, F32, format, f32)
#define EACH_FORMAT_AND_TYPE(KERNELS)                                                                        \
    EACH_TYPE(KERNELS, E4M3, e4m3)                                                                           \
    EACH_TYPE(KERNELS, E5M2, e5m2)                                                                           \
    EACH_TYPE(KERNELS, MostlyInt8, int8)                                                                     \
    EACH_TYPE(KERNELS, Auto, auto)
