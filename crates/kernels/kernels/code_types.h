// The 8-bit codes of docs/wire-format.md, four to a word: what they stand for, and the nearest code to
// a number. Numbers only: non-finite elements are dealt with where blocks are written and read.
#pragma once

#include "element_types.h"

// Where a float8 format and binary32 meet.
struct E4M3Layout {
    static constexpr u32 MANTISSA_BITS = 3;
    static constexpr u32 LEAST_NORMAL = (127 - 6) << 23;
    // 2^(bias - 127): moves the exponent field of a code to that of binary32 and back.
    static DEVICE float down() { return 0x1p-120f; }
    static DEVICE float up() { return 0x1p120f; }
};
struct E5M2Layout {
    static constexpr u32 MANTISSA_BITS = 2;
    static constexpr u32 LEAST_NORMAL = (127 - 14) << 23;
    static DEVICE float down() { return 0x1p-112f; }
    static DEVICE float up() { return 0x1p112f; }
};

// The nearest value of the format, ties to even. Adding a power of two whose last bit has the weight of
// the last bit kept makes the adder round there, for subnormal values too.
template <class Layout> DEVICE float nearest_float8(float value, float limit) {
    float size = magnitude(within(value, limit));
    u32 exponent = larger(bits_of(size) & INFINITE, Layout::LEAST_NORMAL);
    float power = float_of(exponent + ((23 - Layout::MANTISSA_BITS) << 23));
    float rounded = (size + power) - power;
    return float_of(bits_of(rounded) | (bits_of(value) & 0x80000000u));
}

template <class Layout> DEVICE u32 float8_codes(const float* y, float limit) {
    u32 codes = 0;
    UNROLL for (int i = 0; i < 4; ++i) {
        u32 bits = bits_of(nearest_float8<Layout>(y[i], limit) * Layout::down());
        u32 code = ((bits >> 24) & 0x80u) | ((bits >> (23 - Layout::MANTISSA_BITS)) & 0x7fu);
        codes |= code << (8 * i);
    }
    return codes;
}

template <class Layout> DEVICE void float8_values(u32 codes, float* value) {
    constexpr u32 FIELDS = 0x80000000u | (0x7fu << (23 - Layout::MANTISSA_BITS));
    UNROLL for (int i = 0; i < 4; ++i) {
        // The shift to the right is one of a signed number: the sign stays where it is.
        i32 moved = (i32)(codes << (24 - 8 * i)) >> (Layout::MANTISSA_BITS + 1);
        value[i] = float_of((u32)moved & FIELDS) * Layout::up();
    }
}

// Marks, at bit 7 of each byte, the codes of at least 0x80 - step, sign aside.
DEVICE u32 codes_at_the_top(u32 codes, u32 step) {
    return ((codes & 0x7f7f7f7fu) + step * 0x01010101u) & 0x80808080u;
}

struct E4M3 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7b12;
    static constexpr u32 MARK = 0;
    static DEVICE float largest() { return 448.0f; }
    static DEVICE u32 non_finite_codes(u32 codes) { return codes_at_the_top(codes, 1); }

#if HAS_FP8_INSTRUCTIONS
    static DEVICE u32 encode(const float* y) {
        u16 low, high;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        return low | ((u32)high << 16);
    }
    static DEVICE void decode(u32 codes, float* value) {
        UNROLL for (int pair = 0; pair < 2; ++pair) {
            asm("{ .reg .b32 both; .reg .b16 low, high;\n"
                "cvt.rn.f16x2.e4m3x2 both, %2;\n"
                "mov.b32 {low, high}, both;\n"
                "cvt.f32.f16 %0, low;\n"
                "cvt.f32.f16 %1, high; }"
                : "=f"(value[2 * pair]), "=f"(value[2 * pair + 1])
                : "h"((u16)(codes >> (16 * pair))));
        }
    }
#else
    static DEVICE u32 encode(const float* y) { return float8_codes<E4M3Layout>(y, largest()); }
    static DEVICE void decode(u32 codes, float* value) { float8_values<E4M3Layout>(codes, value); }
#endif
};

struct E5M2 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7792;
    static constexpr u32 MARK = 0;
    static DEVICE float largest() { return 57344.0f; }
    static DEVICE u32 non_finite_codes(u32 codes) { return codes_at_the_top(codes, 4); }

#if HAS_FP8_INSTRUCTIONS
    static DEVICE u32 encode(const float* y) {
        u16 low, high;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        return low | ((u32)high << 16);
    }
#else
    static DEVICE u32 encode(const float* y) { return float8_codes<E5M2Layout>(y, largest()); }
#endif
    static DEVICE void decode(u32 codes, float* value) { float8_values<E5M2Layout>(codes, value); }
};

struct Int8 {
    static constexpr u32 NON_FINITE = 0x80;
    static constexpr u32 LARGEST_SCALE = 0x7c01;
    static constexpr u32 MARK = 0x8000;
    static DEVICE float largest() { return 127.0f; }
    static DEVICE u32 non_finite_codes(u32 codes) {
        u32 other = codes ^ 0x80808080u;
        return ~(((other & 0x7f7f7f7fu) + 0x7f7f7f7fu) | other) & 0x80808080u;
    }

    // Next to 1.5 · 2^23 the last bit of a binary32 number has the weight 1: the adder rounds to an
    // integer and leaves it in the low bits.
    static DEVICE u32 encode(const float* y) {
        u32 codes = 0;
        UNROLL for (int i = 0; i < 4; ++i)
            codes |= (bits_of(within(y[i], 127.0f) + 0x1.8p23f) & 0xffu) << (8 * i);
        return codes;
    }
    static DEVICE void decode(u32 codes, float* value) {
        u32 shifted = codes ^ 0x80808080u;
        UNROLL for (int i = 0; i < 4; ++i)
            value[i] = float_of(((shifted >> (8 * i)) & 0xffu) | 0x4b000000u) - (0x1p23f + 128.0f);
    }
};
