// Blocks that use the same global memory. Deliberately wrong.
#include "numbers.h"

KERNEL(race_between_blocks, Numbers) {
    if (threadIdx.x == 0) {
        args.out[0] += args.in[blockIdx.x];
    }
}

// A block reads what another one writes, whichever comes first.
KERNEL(read_from_neighbour, Numbers) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    args.out[i] = args.in[i];
    __syncthreads();
    if (i > 0) {
        args.out[args.length / 2 + i] = args.out[i - 1];
    }
}

KERNEL(write_to_neighbour, Numbers) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = args.out[i];
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x > 0) {
        args.out[i - 1] = value;
    }
}

// Block 0 sets the sum to zero that all blocks add to.
KERNEL(cleared_by_one_block, Numbers) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        args.out[0] = 0.0f;
    }
    __syncthreads();
    atomicAdd(args.out, 1.0f);
}
