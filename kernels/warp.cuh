// Sums over the lanes of a warp and the threads of a block, always in the same order.
#pragma once

#include "common.cuh"

constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr int LANES = 32;

// Sum over the warp, in every lane.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(FULL_WARP, value, offset);
    }
    return value;
}

// One step of warp_scatter_sum: the lane keeps WIDTH of its 2 WIDTH values. A template, because registers cannot be
// indexed by a variable.
template <int WIDTH, int N>
__device__ __forceinline__ void scatter_step(float (&values)[N]) {
    const bool upper = threadIdx.x & WIDTH;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        const float send = upper ? values[i] : values[i + WIDTH];
        const float keep = upper ? values[i + WIDTH] : values[i];
        values[i] = keep + __shfl_xor_sync(FULL_WARP, send, WIDTH);
    }
    if constexpr (WIDTH > 1) {
        scatter_step<WIDTH / 2>(values);
    }
}

// Sums N values over the warp; lane l gets the sum of values[l % N]. Each step halves the values a lane still carries, so
// N = 32 costs 31 shuffles where N separate sums would cost 160. Destroys `values`.
template <int N>
__device__ __forceinline__ float warp_scatter_sum(float (&values)[N]) {
    scatter_step<N / 2>(values);
    float sum = values[0];
#pragma unroll
    for (int offset = N; offset < LANES; offset *= 2) {
        sum += __shfl_xor_sync(FULL_WARP, sum, offset);
    }
    return sum;
}

// Sum over a one-dimensional block of at most 1024 threads, in thread 0. Every thread must call it.
template <typename T>
__device__ T block_sum(T value) {
    __shared__ T warps[LANES];
    value = warp_sum(value);
    __syncthreads(); // an earlier sum may still be read
    if (threadIdx.x % LANES == 0) {
        warps[threadIdx.x / LANES] = value;
    }
    __syncthreads();
    T total = 0;
    if (threadIdx.x == 0) {
        const unsigned count = (blockDim.x + LANES - 1) / LANES;
        for (unsigned warp = 0; warp < count; ++warp) {
            total += warps[warp];
        }
    }
    return total;
}
