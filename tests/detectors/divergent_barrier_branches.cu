// Two barriers, each reached by a part of the block. Deliberately wrong.
#include "numbers.h"

KERNEL(divergent_barrier_branches, Numbers) {
    if (threadIdx.x < 32) {
        args.out[threadIdx.x] = 1.0f;
        __syncthreads();
    } else {
        args.out[threadIdx.x] = 2.0f;
        __syncthreads();
    }
}
