// The 8-bit codes of docs/wire-format.md, four to a word: the nearest codes to four numbers, and what
// codes stand for. Where a function exists by instructions and by arithmetic, both give the same bits.
//
// No encoder has to keep within its range: a scale is at least the quotient of the largest element and M,
// rounded once, or the largest scale, so that no element of a block exceeds M by more than 1/256, and what
// exceeds it that little is rounded to M.
#pragma once

#include "element_types.h"

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
};

// The nearest value of the format, ties to even. Adding a power of two whose last bit has the weight of
// the last bit kept makes the adder round there, for subnormal values too.
template <class Layout> DEVICE float nearest_float8(float value) {
    u32 exponent = larger(bits_of(value) & 0x7f800000u, Layout::LEAST_NORMAL);
    float power = float_of(exponent + ((23 - Layout::MANTISSA_BITS) << 23));
    float rounded = (magnitude(value) + power) - power;
    return float_of(bits_of(rounded) | (bits_of(value) & 0x80000000u));
}

template <class Layout> DEVICE u32 float8_codes(const float* x, float reciprocal) {
    u32 codes = 0;
    UNROLL for (int i = 0; i < 4; ++i) {
        u32 bits = bits_of(nearest_float8<Layout>(x[i] * reciprocal) * Layout::down());
        u32 code = ((bits >> 24) & 0x80u) | ((bits >> (23 - Layout::MANTISSA_BITS)) & 0x7fu);
        codes |= code << (8 * i);
    }
    return codes;
}

// Marks, at bit 7 of each byte, the codes of at least 0x80 - step, sign aside. Other bits mean nothing.
DEVICE u32 codes_at_the_top(u32 codes, u32 step) { return (codes & 0x7f7f7f7fu) + step * 0x01010101u; }

struct E4M3 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7b12;
    static constexpr u32 MARK = 0;
    // Up to this scale no product exceeds the range of an element type.
    static DEVICE float plain_scale() { return 64.0f; }
    static DEVICE float largest() { return 448.0f; }
    static DEVICE float one_over_largest() { return 0x1.24924ap-9f; }
    static DEVICE u32 non_finite_marks(u32 codes) { return codes_at_the_top(codes, 1); }

#if HAS_FP8_INSTRUCTIONS
    static DEVICE void decode(u32 codes, float* q) {
        // Not by a shift: the conversion takes either half of a word.
        u16 half[2];
        asm("mov.b32 {%0, %1}, %2;" : "=h"(half[0]), "=h"(half[1]) : "r"(codes));
        UNROLL for (int pair = 0; pair < 2; ++pair) {
            asm("{ .reg .b32 both; .reg .b16 low, high;\n"
                "cvt.rn.f16x2.e4m3x2 both, %2;\n"
                "mov.b32 {low, high}, both;\n"
                "cvt.f32.f16 %0, low;\n"
                "cvt.f32.f16 %1, high; }"
                : "=f"(q[2 * pair]), "=f"(q[2 * pair + 1])
                : "h"(half[pair]));
        }
    }
    static DEVICE u32 encode(const float* x, float reciprocal) {
        u16 low, high;
        float y[4];
        UNROLL for (int i = 0; i < 4; ++i) y[i] = x[i] * reciprocal;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        return low | ((u32)high << 16);
    }
#else
    // The code's fields where those of a binary32 number are: its value times 2^-120.
    static DEVICE void decode(u32 codes, float* q) {
        constexpr u32 FIELDS = 0x80000000u | (0x7fu << (23 - E4M3Layout::MANTISSA_BITS));
        UNROLL for (int i = 0; i < 4; ++i) {
            // The shift to the right is one of a signed number: the sign stays where it is.
            i32 moved = (i32)(codes << (24 - 8 * i)) >> (E4M3Layout::MANTISSA_BITS + 1);
            q[i] = float_of((u32)moved & FIELDS) * E4M3Layout::up();
        }
    }
    static DEVICE u32 encode(const float* x, float reciprocal) {
        return float8_codes<E4M3Layout>(x, reciprocal);
    }
#endif
};

struct E5M2 {
    static constexpr u32 NON_FINITE = 0x7f;
    static constexpr u32 LARGEST_SCALE = 0x7792;
    static constexpr u32 MARK = 0;
    static DEVICE float plain_scale() { return 1.0f; }
    static DEVICE float largest() { return 57344.0f; }
    static DEVICE float one_over_largest() { return 0x1.24924ap-16f; }
    static DEVICE u32 non_finite_marks(u32 codes) { return codes_at_the_top(codes, 4); }

    // A code is the upper half of the same number in half precision.
    static DEVICE void decode(u32 codes, float* q) {
        u32 low = bytes_of<0x1404>(codes, 0), high = bytes_of<0x3424>(codes, 0);
        q[0] = widen_f16(low & 0xffffu);
        q[1] = widen_f16(low >> 16);
        q[2] = widen_f16(high & 0xffffu);
        q[3] = widen_f16(high >> 16);
    }
#if HAS_FP8_INSTRUCTIONS
    static DEVICE u32 encode(const float* x, float reciprocal) {
        u16 low, high;
        float y[4];
        UNROLL for (int i = 0; i < 4; ++i) y[i] = x[i] * reciprocal;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(y[1]), "f"(y[0]));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(y[3]), "f"(y[2]));
        return low | ((u32)high << 16);
    }
#else
    static DEVICE u32 encode(const float* x, float reciprocal) {
        return float8_codes<E5M2Layout>(x, reciprocal);
    }
#endif
};

struct Int8 {
    static constexpr u32 LARGEST_SCALE = 0x7c01;
    static constexpr u32 MARK = 0x8000;
    static DEVICE float plain_scale() { return 64.0f; }
    static DEVICE float largest() { return 127.0f; }
    static DEVICE float one_over_largest() { return 0x1.020408p-7f; }
    // Blocks with an element that is not finite are not written as INT8.
    static DEVICE u32 non_finite_marks(u32) { return 0; }

    // Next to 1.5 · 2^23 the last bit of a binary32 number has the weight 1: the adder rounds to an integer
    // and leaves it in the low bits. Fused, so that the product is rounded nowhere else.
    static DEVICE u32 encode(const float* x, float reciprocal) {
        u32 sum[4];
        UNROLL for (int i = 0; i < 4; ++i) sum[i] = bits_of(multiply_add(x[i], reciprocal, 0x1.8p23f));
        return bytes_of<0x5410>(bytes_of<0x0040>(sum[0], sum[1]), bytes_of<0x0040>(sum[2], sum[3]));
    }
    static DEVICE void decode(u32 codes, float* q) {
#if defined(__CUDACC_RTC__)
        // With the code plus 128 for b, 0x64bb are the bits of 1024 + b in half precision.
        u32 shifted = codes ^ 0x80808080u;
        decode_pair(bytes_of<0x4140>(shifted, 0x64646464u), q);
        decode_pair(bytes_of<0x4342>(shifted, 0x64646464u), q + 2);
#else
        UNROLL for (int i = 0; i < 4; ++i) q[i] = (float)(signed char)(codes >> (8 * i));
#endif
    }

    // Adds what four codes stand for under a scale to sums, or makes it the sums if it is the FIRST.
    template <bool FIRST> static DEVICE void add(u32 codes, float scale, float* sum) {
#if ARITHMETIC_IS_CHEAPEST
        constexpr i32 BIAS_BITS = 0x4b400000;
        const float bias = 0x1.8p23f;
        UNROLL for (int i = 0; i < 4; ++i) {
            // A byte with its sign, onto the bits of 1.5 · 2^23: that number plus the code.
            float biased = float_of((u32)dot_bytes(codes, 1u << (8 * i), BIAS_BITS));
            sum[i] = FIRST ? multiply_add(biased, scale, -bias * scale)
                           : multiply_add(biased - bias, scale, sum[i]);
        }
#else
        float q[4];
        decode(codes, q);
        UNROLL for (int i = 0; i < 4; ++i)
            sum[i] = FIRST ? q[i] * scale : multiply_add(q[i], scale, sum[i]);
#endif
    }
#if defined(__CUDACC_RTC__)
    static DEVICE void decode_pair(u32 halves, float* q) {
        u32 both;
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(halves), "r"(0xe480e480u));  // -1152
        q[0] = widen_f16(both & 0xffffu);
        q[1] = widen_f16(both >> 16);
    }
#endif
};
