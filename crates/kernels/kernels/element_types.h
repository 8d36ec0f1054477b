// The three element types of user buffers, to and from binary32, as words of memory: one element of 32 bits
// or two of 16. All ranks are to end with the same bits: a NaN has those that NVIDIA's instructions make, and
// where a processor makes others, it is put in after narrowing.
#pragma once

#include "portability.h"

#if defined(__CUDACC_RTC__)
DEVICE float widen_f16(u32 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
    return value;
}
DEVICE u32 narrow_f16s(float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
DEVICE u32 narrow_bf16s(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// The larger magnitude of `most`, which is one, and a number of the type; NaN if one of them is.
#define LARGER_MAGNITUDES(name, type)                                                                        \
    DEVICE u32 name(u32 most, u32 word) {                                                                    \
        u32 larger;                                                                                          \
        asm("{ .reg .b32 magnitude;\n"                                                                       \
            "abs." type " magnitude, %2;\n"                                                                  \
            "max.NaN." type " %0, %1, magnitude; }"                                                          \
            : "=r"(larger)                                                                                   \
            : "r"(most), "r"(word));                                                                         \
        return larger;                                                                                       \
    }
LARGER_MAGNITUDES(larger_f16s, "f16x2")
LARGER_MAGNITUDES(larger_bf16s, "bf16x2")
LARGER_MAGNITUDES(larger_f32, "f32")
#undef LARGER_MAGNITUDES
#else
DEVICE u32 larger_f16s(u32 most, u32 word) { return larger_halves(most, word & 0x7fff7fffu); }
DEVICE u32 larger_bf16s(u32 most, u32 word) { return larger_halves(most, word & 0x7fff7fffu); }
DEVICE u32 larger_f32(u32 most, u32 word) { return larger(most, word & 0x7fffffffu); }
DEVICE float widen_f16(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)bits); }
DEVICE u32 narrow_f16(float value) { return __builtin_bit_cast(u16, (_Float16)value); }
DEVICE u32 narrow_f16s(float low, float high) { return narrow_f16(low) | (narrow_f16(high) << 16); }
DEVICE u32 rounded_to_bf16(float value) { return bits_of(value) + 0x7fffu + ((bits_of(value) >> 16) & 1); }
DEVICE u32 narrow_bf16s(float low, float high) {
    return (rounded_to_bf16(low) >> 16) | (rounded_to_bf16(high) & 0xffff0000u);
}
#endif

struct F16 {
    typedef u16 Bits;
    // Elements of a lane that lie side by side.
    static constexpr int RUN = 8;
    static constexpr u32 INFINITE = 0x7c00;
    static constexpr u32 NOT_A_NUMBER = 0x7fff;
    // In the order of bits, with what is not finite last.
    static DEVICE u32 magnitudes(u32 word) { return word & 0x7fff7fffu; }
    static DEVICE u32 larger_magnitudes(u32 most, u32 word) { return larger_f16s(most, word); }
    static DEVICE float largest() { return 65504.0f; }
    static DEVICE float widen(u32 bits) { return widen_f16(bits); }
    static DEVICE float widen_upper(u32 word) { return widen_f16(word >> 16); }
    static DEVICE u32 narrow(float low, float high) { return narrow_f16s(low, high); }
};

struct Bf16 {
    typedef u16 Bits;
    static constexpr int RUN = 8;
    static constexpr u32 INFINITE = 0x7f80;
    static constexpr u32 NOT_A_NUMBER = 0x7fff;
    // In the order of bits, with what is not finite last.
    static DEVICE u32 magnitudes(u32 word) { return word & 0x7fff7fffu; }
    static DEVICE u32 larger_magnitudes(u32 most, u32 word) { return larger_bf16s(most, word); }
    static DEVICE float largest() { return float_of(0x7f7f0000u); }
    static DEVICE float widen(u32 bits) { return float_of(bits << 16); }
    static DEVICE float widen_upper(u32 word) { return float_of(word & 0xffff0000u); }
    static DEVICE u32 narrow(float low, float high) { return narrow_bf16s(low, high); }
};

struct F32 {
    typedef u32 Bits;
    static constexpr int RUN = 4;
    static constexpr u32 INFINITE = 0x7f800000u;
    static constexpr u32 NOT_A_NUMBER = 0x7fffffffu;
    // In the order of bits, with what is not finite last.
    static DEVICE u32 magnitudes(u32 word) { return word & 0x7fffffffu; }
    static DEVICE u32 larger_magnitudes(u32 most, u32 word) { return larger_f32(most, word); }
    static DEVICE float largest() { return float_of(0x7f7fffffu); }
    static DEVICE float widen(u32 bits) { return float_of(bits); }
};

// Binary32 that no buffer holds: its codes are read and written as those of 16-bit types.
struct F32OfPackets : F32 {
    static constexpr int RUN = 8;
};
// What an element is on the way from packets to a packet.
template <class Element> struct OfPackets { typedef Element Type; };
template <> struct OfPackets<F32> { typedef F32OfPackets Type; };
