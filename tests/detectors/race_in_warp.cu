// Lanes of one warp that rely on running in step. Deliberately wrong.
#include "numbers.h"

KERNEL(race_in_warp, Numbers) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 0.0f;
    __syncthreads();
    tile[threadIdx.x] = args.in[threadIdx.x];
    args.out[threadIdx.x] = tile[31 - threadIdx.x];
}

// The barrier joins lanes of each half only.
KERNEL(race_between_halves, Numbers) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 0.0f;
    __syncthreads();
    tile[threadIdx.x] = args.in[threadIdx.x];
    __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
    args.out[threadIdx.x] = tile[31 - threadIdx.x];
}

// A shuffle exchanges registers and orders no memory.
KERNEL(shuffle_is_no_barrier, Numbers) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 0.0f;
    __syncthreads();
    tile[threadIdx.x] = args.in[threadIdx.x];
    const float mine = __shfl_xor_sync(0xffffffffu, args.in[threadIdx.x], 1);
    args.out[threadIdx.x] = mine + tile[31 - threadIdx.x];
}
