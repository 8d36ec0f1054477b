// The 8-bit codes of docs/wire-format.md, four to a word: the nearest codes to four numbers, and what
// codes stand for. Numbers only: non-finite elements are dealt with where blocks are written and read.
// Where a function exists by instructions and by arithmetic, both give the same bits.
//
// No encoder has to keep within its range: a scale is at least the quotient of the largest element and M,
// rounded once, or the largest scale, so that no element of a block exceeds M by more than 1/256, and what
// exceeds it that little is rounded to M.
#pragma once

#include "portability.h"

// What turns codes into values times a scale at once: see `scaled`.
struct Multiplier {
    float factor;
    float summand;
};

// Where a float8 format and binary32 meet.
struct E4M3Layout {
    static constexpr u32 MANTISSA_BITS = 3;
    static constexpr u32 LEAST_NORMAL = (127 - 6) << 23;
    // 2^(bias - 127): moves the exponent field of a code to that of binary32, and back.
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
template <class Layout> DEVICE float nearest_float8(float value) {
    u32 exponent = larger(bits_of(value) & 0x7f800000u, Layout::LEAST_NORMAL);
    float power = float_of(exponent + ((23 - Layout::MANTISSA_BITS) << 23));
    float rounded = (magnitude(value) + power) - power;
    return float_of(bits_of(rounded) | (bits_of(value) & 0x80000000u));
}

template <class Layout> DEVICE u32 float8_codes(const float* y, float* q) {
    u32 codes = 0;
    UNROLL for (int i = 0; i < 4; ++i) {
        q[i] = nearest_float8<Layout>(y[i]);
        u32 bits = bits_of(q[i] * Layout::down());
        u32 code = ((bits >> 24) & 0x80u) | ((bits >> (23 - Layout::MANTISSA_BITS)) & 0x7fu);
        codes |= code << (8 * i);
    }
    return codes;
}

template <class Layout> DEVICE void float8_scaled(u32 codes, float factor, float* value) {
    constexpr u32 FIELDS = 0x80000000u | (0x7fu << (23 - Layout::MANTISSA_BITS));
    UNROLL for (int i = 0; i < 4; ++i) {
        // The shift to the right is one of a signed number: the sign stays where it is.
        i32 moved = (i32)(codes << (24 - 8 * i)) >> (Layout::MANTISSA_BITS + 1);
        value[i] = float_of((u32)moved & FIELDS) * factor;
    }
}

// Marks, at bit 7 of each byte, the codes of at least 0x80 - step, sign aside. Other bits mean nothing.
DEVICE u32 codes_at_the_top(u32 codes, u32 step) { return (codes & 0x7f7f7f7fu) + step * 0x01010101u; }

struct E4M3 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7b12;
    static constexpr u32 MARK = 0;
    // Up to this scale `scaled` may be used, and no product exceeds the range of an element type.
    static constexpr u32 PLAIN_SCALE = 0x4280;  // 64
    static DEVICE float largest() { return 448.0f; }
    static DEVICE u32 non_finite_marks(u32 codes) { return codes_at_the_top(codes, 1); }

#if HAS_FP8_INSTRUCTIONS
    static DEVICE void decode(u32 codes, float* q) {
        UNROLL for (int pair = 0; pair < 2; ++pair) {
            asm("{ .reg .b32 both; .reg .b16 low, high;\n"
                "cvt.rn.f16x2.e4m3x2 both, %2;\n"
                "mov.b32 {low, high}, both;\n"
                "cvt.f32.f16 %0, low;\n"
                "cvt.f32.f16 %1, high; }"
                : "=f"(q[2 * pair]), "=f"(q[2 * pair + 1])
                : "h"((u16)(codes >> (16 * pair))));
        }
    }
    static DEVICE u32 encode(const float* y, float* q) {
        u16 low, high;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        u32 codes = low | ((u32)high << 16);
        decode(codes, q);
        return codes;
    }
    static DEVICE Multiplier multiplier(float scale) { return {scale, 0.0f}; }
    static DEVICE void scaled(u32 codes, Multiplier by, float* value) {
        decode(codes, value);
        UNROLL for (int i = 0; i < 4; ++i) value[i] *= by.factor;
    }
#else
    static DEVICE void decode(u32 codes, float* q) { float8_scaled<E4M3Layout>(codes, E4M3Layout::up(), q); }
    static DEVICE u32 encode(const float* y, float* q) { return float8_codes<E4M3Layout>(y, q); }
    static DEVICE Multiplier multiplier(float scale) { return {scale * E4M3Layout::up(), 0.0f}; }
    static DEVICE void scaled(u32 codes, Multiplier by, float* value) {
        float8_scaled<E4M3Layout>(codes, by.factor, value);
    }
#endif
};

struct E5M2 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7792;
    static constexpr u32 MARK = 0;
    static constexpr u32 PLAIN_SCALE = 0x3f80;  // 1
    static DEVICE float largest() { return 57344.0f; }
    static DEVICE u32 non_finite_marks(u32 codes) { return codes_at_the_top(codes, 4); }

    static DEVICE void decode(u32 codes, float* q) { float8_scaled<E5M2Layout>(codes, E5M2Layout::up(), q); }
#if HAS_FP8_INSTRUCTIONS
    static DEVICE u32 encode(const float* y, float*) {
        u16 low, high;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        return low | ((u32)high << 16);
    }
#else
    static DEVICE u32 encode(const float* y, float* q) { return float8_codes<E5M2Layout>(y, q); }
#endif
    static DEVICE Multiplier multiplier(float scale) { return {scale * E5M2Layout::up(), 0.0f}; }
    static DEVICE void scaled(u32 codes, Multiplier by, float* value) {
        float8_scaled<E5M2Layout>(codes, by.factor, value);
    }
};

struct Int8 {
    static constexpr u32 NON_FINITE = 0x80;
    static constexpr u32 LARGEST_SCALE = 0x7c01;
    static constexpr u32 MARK = 0x8000;
    static constexpr u32 PLAIN_SCALE = 0x4280;  // 64
    static DEVICE float largest() { return 127.0f; }
    // At least one byte is marked if and only if one is the non-finite code; which one is for `gathered`.
    static DEVICE u32 non_finite_marks(u32 codes) {
        u32 shifted = codes ^ 0x80808080u;
        return (shifted - 0x01010101u) & ~shifted;
    }

    // Next to 1.5 · 2^23 the last bit of a binary32 number has the weight 1: the adder rounds to an integer
    // and leaves it in the low bits.
    static DEVICE u32 encode(const float* y, float* q) {
        u32 codes = 0;
        UNROLL for (int i = 0; i < 4; ++i) {
            float sum = y[i] + 0x1.8p23f;
            q[i] = sum - 0x1.8p23f;
            codes |= (bits_of(sum) & 0xffu) << (8 * i);
        }
        return codes;
    }
    static DEVICE void decode(u32 codes, float* q) { scaled(codes, multiplier(1.0f), q); }
    // With the code plus 128 for b, 0x4b00bb00 are the bits of 2^23 + 256 b. Times scale / 256, less what
    // b = 128 gives: the product of code and scale. All of it is exact, so being fused changes nothing.
    static DEVICE Multiplier multiplier(float scale) {
        float factor = scale * 0x1p-8f;
        return {factor, factor * -(0x1p23f + 0x1p15f)};
    }
    static DEVICE void scaled(u32 codes, Multiplier by, float* value) {
        u32 shifted = codes ^ 0x80808080u;
        UNROLL for (int i = 0; i < 4; ++i)
            value[i] = multiply_add(float_of(byte_in_4b00xx00(shifted, i)), by.factor, by.summand);
    }
};
