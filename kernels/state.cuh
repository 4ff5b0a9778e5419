// Element types of propagated states: float, IEEE half and bfloat16. Arithmetic is always float.
#pragma once

#include "common.cuh"

struct Half {
    unsigned short bits;
};

struct BFloat {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(float value) {
    return value;
}

__device__ __forceinline__ float to_float(BFloat value) {
    return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

#ifdef HARMONIA_HOST
__device__ __forceinline__ float to_float(Half value) {
    const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
    const uint32_t magnitude = value.bits & 0x7fffu;
    if (magnitude >= 0x7c00u) { // infinity, NaN
        return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    // Rebias by multiplying with 2^112: exact, subnormal halves included.
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112f));
}
#else
__device__ __forceinline__ float to_float(Half value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}
#endif

template <typename S>
__device__ S from_float(float value);

template <>
__device__ __forceinline__ float from_float<float>(float value) {
    return value;
}

// Round to nearest, ties to even.
template <>
__device__ __forceinline__ BFloat from_float<BFloat>(float value) {
    const uint32_t bits = __float_as_uint(value);
    BFloat result;
    result.bits = value != value ? 0x7fffu : static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return result;
}

template <>
__device__ __forceinline__ Half from_float<Half>(float value) {
    Half result;
#ifdef HARMONIA_HOST
    const uint32_t bits = __float_as_uint(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
        half = 0x7fffu;
    } else if (magnitude >= 0x477ff000u) { // rounds to 65536 or more
        half = 0x7c00u;
    } else if (magnitude < 0x38800000u) { // subnormal: adding 0.5 leaves the rounded half in the low bits
        half = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    }
    result.bits = static_cast<unsigned short>(sign | half);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#endif
    return result;
}

// What stored states are multiplied by: a power of two that keeps half in range, and 1 for other types.
template <typename S>
__device__ __forceinline__ float stored_scale(const float*) {
    return 1.0f;
}

template <>
__device__ __forceinline__ float stored_scale<Half>(const float* scale) {
    return __ldg(scale);
}

// V neighbouring elements, moved with one load or store.
template <typename S, int V>
struct __align__(sizeof(S) * V) Pack {
    S elements[V];
};

template <typename S, int V>
__device__ __forceinline__ void load(float (&values)[V], const S* from) {
    const Pack<S, V> pack = *reinterpret_cast<const Pack<S, V>*>(from);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        values[v] = to_float(pack.elements[v]);
    }
}

template <typename S, int V>
__device__ __forceinline__ void store(S* to, const float (&values)[V]) {
    Pack<S, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        pack.elements[v] = from_float<S>(values[v]);
    }
    *reinterpret_cast<Pack<S, V>*>(to) = pack;
}
