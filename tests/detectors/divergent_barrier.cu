// Threads that return while others wait. Deliberately wrong.
#include "numbers.h"

KERNEL(divergent_barrier, Numbers) {
    __shared__ float tile[64];
    if (threadIdx.x >= args.length) {
        return;
    }
    tile[threadIdx.x] = args.in[threadIdx.x];
    __syncthreads();
    args.out[threadIdx.x] = tile[args.length - 1 - threadIdx.x];
}

// One round more for half of the threads.
KERNEL(divergent_loop, Numbers) {
    const unsigned rounds = threadIdx.x < 32 ? 3 : 2;
    for (unsigned round = 0; round < rounds; ++round) {
        __syncthreads();
    }
    args.out[threadIdx.x] = 1.0f;
}
