// Scalar functions the kernels share.
#pragma once

#include "common.cuh"

// Both branches keep the exponent negative, so nothing overflows.
__device__ __forceinline__ float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

// 0 for NaN: a diverged run is found by its loss.
__device__ __forceinline__ float relu(float x) {
    return fmaxf(x, 0.0f);
}

// Whether a set of rows, one bit each, has this one; no set has all.
__device__ __forceinline__ bool contains(const uint64_t* set, uint64_t row) {
    return !set || (__ldg(set + row / 64) >> (row % 64) & 1);
}

template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
    return a < b ? a : b;
}
