// The three element types of user buffers, to and from binary32. Every NaN is written with the same bits,
// since what processors make of one differs and all ranks are to end with the same bits.
#pragma once

#include "portability.h"

constexpr u32 INFINITE = 0x7f800000u;

#if defined(__CUDACC_RTC__)
DEVICE float widen_f16(u32 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
    return value;
}
DEVICE u32 narrow_f16(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
DEVICE float widen_f16(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)bits); }
DEVICE u32 narrow_f16(float value) { return __builtin_bit_cast(u16, (_Float16)value); }
#endif

struct F16 {
    typedef u16 Bits;
    static constexpr u32 NOT_A_NUMBER = 0x7e00;
    static DEVICE float largest() { return 65504.0f; }
    static DEVICE float widen(u32 bits) { return widen_f16(bits); }
    static DEVICE u32 narrow(float value) { return narrow_f16(value); }
};

struct Bf16 {
    typedef u16 Bits;
    static constexpr u32 NOT_A_NUMBER = 0x7fc0;
    static DEVICE float largest() { return float_of(0x7f7f0000u); }
    static DEVICE float widen(u32 bits) { return float_of(bits << 16); }
    static DEVICE u32 narrow(float value) {
        u32 bits = bits_of(value);
        return (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    }
};

struct F32 {
    typedef u32 Bits;
    static constexpr u32 NOT_A_NUMBER = 0x7fc00000u;
    static DEVICE float largest() { return float_of(0x7f7fffffu); }
    static DEVICE float widen(u32 bits) { return float_of(bits); }
    static DEVICE u32 narrow(float value) { return bits_of(value); }
};
