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

template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
    return a < b ? a : b;
}
