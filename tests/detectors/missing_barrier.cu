// Shared memory read before it is known to be written, or overwritten before it is read. Deliberately wrong.
#include "numbers.h"

KERNEL(missing_barrier, Numbers) {
    __shared__ float tile[256];
    tile[threadIdx.x] = args.in[threadIdx.x];
    __syncwarp(); // orders the warp, not the block
    const unsigned other = threadIdx.x ^ 64;
    args.out[threadIdx.x] = threadIdx.x < other ? tile[threadIdx.x] : tile[other];
}

// The barrier at the end of the round is missing: fast threads write what slow ones still read.
KERNEL(missing_second_barrier, Numbers) {
    __shared__ float tile[256];
    float sum = 0.0f;
    for (unsigned round = 0; round < 2; ++round) {
        tile[threadIdx.x] = args.in[threadIdx.x] + round;
        __syncthreads();
        sum += tile[blockDim.x - 1 - threadIdx.x];
    }
    args.out[threadIdx.x] = sum;
}

// Everybody reads, then one writes: the reader it disturbs came long before.
KERNEL(write_after_many_reads, Numbers) {
    __shared__ float shared;
    if (threadIdx.x == 0) {
        shared = args.in[0];
    }
    __syncthreads();
    args.out[threadIdx.x] = shared;
    if (threadIdx.x == blockDim.x - 1) {
        shared = 0.0f;
    }
}

// Same block, global memory.
KERNEL(missing_barrier_global, Numbers) {
    args.out[threadIdx.x] = args.in[threadIdx.x];
    args.out[(threadIdx.x + 32) % blockDim.x] += 1.0f;
}

// Neighbouring 16-bit words are no race; the same one is.
KERNEL(race_on_halves, Numbers) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(args.out);
    halves[threadIdx.x] = 1;
    if (threadIdx.x == 64) {
        halves[64 + 1] = 2;
    }
}

KERNEL(plain_and_atomic, Numbers) {
    atomicAdd(args.out, 1.0f);
    if (threadIdx.x == 40) {
        args.out[1] = args.out[0];
    }
}
