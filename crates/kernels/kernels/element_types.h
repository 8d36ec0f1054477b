// The three element types of user buffers, to and from binary32, as words of memory: one element of 32 bits
// or two of 16. Numbers only where they are narrowed: NaN is put in later, with the same bits everywhere,
// since what processors make of one differs and all ranks are to end with the same bits.
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
#else
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
    static constexpr u32 INFINITE = 0x7c00;
    static constexpr u32 NOT_A_NUMBER = 0x7e00;
    static DEVICE float largest() { return 65504.0f; }
    static DEVICE float widen(u32 bits) { return widen_f16(bits); }
    static DEVICE float widen_upper(u32 word) { return widen_f16(word >> 16); }
    static DEVICE u32 narrow(float low, float high) { return narrow_f16s(low, high); }
};

struct Bf16 {
    typedef u16 Bits;
    static constexpr u32 INFINITE = 0x7f80;
    static constexpr u32 NOT_A_NUMBER = 0x7fc0;
    static DEVICE float largest() { return float_of(0x7f7f0000u); }
    static DEVICE float widen(u32 bits) { return float_of(bits << 16); }
    static DEVICE float widen_upper(u32 word) { return float_of(word & 0xffff0000u); }
    static DEVICE u32 narrow(float low, float high) { return narrow_bf16s(low, high); }
};

struct F32 {
    typedef u32 Bits;
    static constexpr u32 INFINITE = 0x7f800000u;
    static constexpr u32 NOT_A_NUMBER = 0x7fc00000u;
    static DEVICE float largest() { return float_of(0x7f7fffffu); }
    static DEVICE float widen(u32 bits) { return float_of(bits); }
};
