// What compiling experts and differentiating them share.
#pragma once

#include "warp.cuh"

// Threads of a block that has an expert.
constexpr uint32_t COMPILE_THREADS = 128;

// How many of the sorted values are below x, or with OR_EQUAL not above it.
template <bool OR_EQUAL>
__device__ __forceinline__ uint32_t count_below(const float* values, uint32_t count, float x) {
    uint32_t low = 0;
    while (count > 0) {
        const uint32_t half = count / 2;
        const float value = values[low + half];
        if (value < x || (OR_EQUAL && value == x)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

// Pieces of an expert.
__device__ __forceinline__ uint32_t pieces_of(const Compiled& compiled, uint32_t c) {
    return compiled.counts[c * compiled.layers + compiled.layers - 1];
}
