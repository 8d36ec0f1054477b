// What CUDA, HIP and a CPU compiler spell differently, under one name each: threads, lane exchange,
// votes, shared memory, atomics. Nothing here knows of packets or number formats.
// CUDA is compiled by NVRTC and HIP by clang, both without any vendor header.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

// What one access moves.
struct alignas(16) Words4 { u32 of[4]; };
struct alignas(8) Words2 { u32 of[2]; };

// Lanes that decide together. A wave of 64 counts as two of them.
constexpr u32 WARP = 32;
// The most threads that a group may have.
constexpr u32 GROUP = 256;

#if defined(__CUDACC_RTC__)

#define DEVICE __device__ __forceinline__
// `groups` of 256 threads are to fit into a multiprocessor at a time: 4 leave 64 registers to a thread,
// and 3 leave 80.
#define KERNEL(groups) extern "C" __global__ __launch_bounds__(256, groups) void
#define SHARED __shared__

DEVICE u32 thread_in_group() { return threadIdx.x; }
DEVICE u32 threads_in_group() { return blockDim.x; }
DEVICE u32 group_in_grid() { return blockIdx.x; }
DEVICE u32 groups_in_grid() { return gridDim.x; }
DEVICE void wait_for_group() { __syncthreads(); }
DEVICE void wait_for_warp() { __syncwarp(); }

// The value of the lane whose number differs in the bits of MASK (below 16).
template <int MASK> DEVICE u32 exchange(u32 value) { return __shfl_xor_sync(0xffffffffu, value, MASK); }
// The value of lane LANE of one's own 16 lanes.
template <int LANE> DEVICE u32 from_lane(u32 value) { return __shfl_sync(0xffffffffu, value, LANE, 16); }
// True in every lane of a warp if it is in one. It may also be true without need, never false.
DEVICE bool any_in_warp(bool value) { return __any_sync(0xffffffffu, value); }
// One bit per lane of the warp.
DEVICE u32 votes_in_warp(bool value) { return __ballot_sync(0xffffffffu, value); }

DEVICE void add_atomically(u64* sum, u64 value) { atomicAdd(sum, value); }
DEVICE void add_atomically(double* sum, double value) { atomicAdd(sum, value); }

// By CUDA's own types: of a struct the compiler may load one member after the other.
DEVICE Words4 load(const Words4* from) {
    uint4 words = *(const uint4*)from;
    return {{words.x, words.y, words.z, words.w}};
}
DEVICE Words2 load(const Words2* from) {
    uint2 words = *(const uint2*)from;
    return {{words.x, words.y}};
}
DEVICE void store(Words4* to, const Words4& words) {
    *(uint4*)to = make_uint4(words.of[0], words.of[1], words.of[2], words.of[3]);
}
DEVICE void store(Words2* to, const Words2& words) { *(uint2*)to = make_uint2(words.of[0], words.of[1]); }

// 16 bytes into shared memory if `wanted`, under way while the lane goes on.
DEVICE void begin_copy(u8* shared, const u8* from, bool wanted) {
    u32 to = (u32)__cvta_generic_to_shared(shared);
    asm volatile("{ .reg .pred wanted;\n"
                 "setp.ne.u32 wanted, %2, 0;\n"
                 "@wanted cp.async.cg.shared.global [%0], [%1], 16; }"
                 : : "r"(to), "l"(from), "r"((u32)wanted) : "memory");
}
// Those that this lane has begun since the last time belong together.
DEVICE void end_of_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// For all that belong together but the latest LEFT.
template <int LEFT> DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory"); }

DEVICE u32 bits_of(float value) { return __float_as_uint(value); }
DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 bits_set(u32 value) { return __popc(value); }
DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

#elif defined(__HIP__)

#define DEVICE __attribute__((device, always_inline)) inline
#define KERNEL(groups) extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 256))) void
#define SHARED __attribute__((shared))

DEVICE u32 thread_in_group() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 threads_in_group() { return __builtin_amdgcn_workgroup_size_x(); }
DEVICE u32 group_in_grid() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 groups_in_grid() { return __builtin_amdgcn_grid_size_x() / threads_in_group(); }
DEVICE void wait_for_group() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void wait_for_warp() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// ds_swizzle in bit mode: lane' = ((lane & and) | or) ^ xor within 32 lanes, the masks at bits 0, 5, 10.
template <int MASK> DEVICE u32 exchange(u32 value) {
    return __builtin_amdgcn_ds_swizzle(value, (MASK << 10) | 0x1f);
}
template <int LANE> DEVICE u32 from_lane(u32 value) {
    return __builtin_amdgcn_ds_swizzle(value, (LANE << 5) | 0x10);
}
DEVICE bool any_in_warp(bool value) { return __builtin_amdgcn_ballot_w64(value) != 0; }
DEVICE u32 votes_in_warp(bool value) {
    return (u32)(__builtin_amdgcn_ballot_w64(value) >> (thread_in_group() & WARP));
}

template <class Number> DEVICE void add_atomically(Number* sum, Number value) {
    __hip_atomic_fetch_add(sum, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

DEVICE u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
DEVICE float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 bits_set(u32 value) { return __builtin_popcount(value); }
DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

#else

#include "cpu/lanes.h"

#endif

// FP8 instructions with OCP's bits. gfx942's have other bits (FNUZ); on all else the software has them too.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define HAS_FP8_INSTRUCTIONS 1
#else
#define HAS_FP8_INSTRUCTIONS 0
#endif

// Where binary32 arithmetic is as fast as instructions are issued and permutations of bytes are not. On the CPU
// too, for tests.
#if defined(__CUDA_ARCH__) ? __CUDA_ARCH__ >= 890 : !defined(__CUDACC_RTC__) && !defined(__HIP__)
#define ARITHMETIC_IS_CHEAPEST 1
#else
#define ARITHMETIC_IS_CHEAPEST 0
#endif

// Copies into shared memory that a lane need not wait for. On the CPU too, for tests.
#if !defined(HAS_COPIES)
#define HAS_COPIES ARITHMETIC_IS_CHEAPEST
#endif

#if defined(__clang__) || defined(__CUDACC_RTC__)
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#else
#define UNROLL
#define NO_UNROLL
#endif

#if !defined(__CUDACC_RTC__)
template <class Words> DEVICE Words load(const Words* from) { return *from; }
template <class Words> DEVICE void store(Words* to, const Words& words) { *to = words; }
#endif

template <int MASK> DEVICE float exchange(float value) { return float_of(exchange<MASK>(bits_of(value))); }
template <int LANE> DEVICE float from_lane(float value) { return float_of(from_lane<LANE>(bits_of(value))); }
template <int MASK> DEVICE double exchange(double value) {
    union { double number; u32 half[2]; } word;
    word.number = value;
    word.half[0] = exchange<MASK>(word.half[0]);
    word.half[1] = exchange<MASK>(word.half[1]);
    return word.number;
}

// The first statement of a branch that is hardly ever taken: what has a side effect is not computed
// ahead of the branch, however cheap it looks.
DEVICE void rarely_here() { asm volatile(""); }
#if defined(__HIP__)
DEVICE void forget(u32& word) { asm volatile("" : "+v"(word)); }
#else
DEVICE void forget(u32& word) { asm volatile("" : "+r"(word)); }
#endif

DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }
DEVICE i32 larger(i32 a, i32 b) { return a > b ? a : b; }
DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }
// A NaN stays one.
DEVICE float within(float value, float limit) {
    float below = value > limit ? limit : value;
    return below < -limit ? -limit : below;
}
DEVICE float magnitude(float value) { return float_of(bits_of(value) & 0x7fffffffu); }

// The larger of the upper and of the lower halves of two words.
DEVICE u32 larger_halves(u32 a, u32 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    return __vmaxu2(a, b);
#else
    return larger(a & 0xffff0000u, b & 0xffff0000u) | larger(a & 0xffffu, b & 0xffffu);
#endif
}

// Bytes of two words, the lower bytes numbered 0 to 3 and the upper ones 4 to 7, by the digits of SELECTOR.
template <u32 SELECTOR> DEVICE u32 bytes_of(u32 lower, u32 upper) {
#if defined(__CUDACC_RTC__)
    return __byte_perm(lower, upper, SELECTOR);
#else
    u64 both = lower | ((u64)upper << 32);
    u32 word = 0;
    UNROLL for (int i = 0; i < 4; ++i)
        word |= (u32)((both >> (8 * ((SELECTOR >> (4 * i)) & 7))) & 0xffu) << (8 * i);
    return word;
#endif
}

// The lower or the upper half of a word (`which`: 0 or 1) above 16 zeros.
DEVICE u32 half_on_top(u32 word, u32 which) {
#if defined(__CUDACC_RTC__)
    u32 moved;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(moved) : "r"(word), "r"(0), "r"(0x1044 + 0x2200 * which));
    return moved;
#else
    return (word >> (16 * which)) << 16;
#endif
}

// The sum of the products of four signed bytes each, added to `sum`.
DEVICE i32 dot_bytes(u32 a, u32 b, i32 sum) {
#if defined(__CUDACC_RTC__)
    return __dp4a((i32)a, (i32)b, sum);
#else
    UNROLL for (int i = 0; i < 4; ++i)
        sum += (i32)(signed char)(a >> (8 * i)) * (i32)(signed char)(b >> (8 * i));
    return sum;
#endif
}

// 1 / value for a value of at most 8 significant bits whose reciprocal is a normal number.
DEVICE float reciprocal_of(float value) {
#if defined(__CUDACC_RTC__)
    // With so few bits no quotient is near the middle of two numbers: one step from the approximation rounds
    // as a division does.
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(value));
    return multiply_add(near, multiply_add(-value, near, 1.0f), near);
#else
    return 1.0f / value;
#endif
}
