// Shared memory read although no thread of the block has written it. Deliberately wrong.
#include "numbers.h"

KERNEL(unwritten_static, Numbers) {
    __shared__ float tile[64];
    if (threadIdx.x != 7) {
        tile[threadIdx.x] = args.in[threadIdx.x];
    }
    __syncthreads();
    args.out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

KERNEL(unwritten_dynamic, Numbers) {
    DYNAMIC_SHARED(float, tile);
    if (threadIdx.x > 0) {
        tile[threadIdx.x] = args.in[threadIdx.x];
    }
    __syncthreads();
    args.out[threadIdx.x] = tile[threadIdx.x];
}

// Written by the first block only: each block has shared memory of its own.
KERNEL(unwritten_by_second_block, Numbers) {
    __shared__ float scale;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        scale = 2.0f;
    }
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    args.out[i] = scale * args.in[i];
}
