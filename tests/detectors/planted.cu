// Three of the thirteen bugs once planted into real kernels, of a kind that sizes and inputs of ordinary tests hide.
#include "numbers.h"

// Compiled for blocks of 64 threads: registers are handed out for as many.
BOUNDED_KERNEL(beyond_launch_bounds, Numbers, 64, 1) { args.out[threadIdx.x] = args.in[threadIdx.x]; }

// Every block writes its sum to the place of the first: the row of the block is left out of the index. No value tells, for
// all blocks have the same.
KERNEL(blocks_write_one_place, Numbers) {
    if (threadIdx.x == 0) {
        args.out[0] = 1.0f;
    }
}

struct Matrix {
    float* values; // rows x columns
    uint64_t rows;
    uint32_t columns;
};

// Grid: tiles of 32 columns, blocks of one row.
KERNEL(index_in_64_bits, Matrix) {
    const uint32_t column = blockIdx.x * 32 + threadIdx.x;
    const uint64_t row = blockIdx.y;
    if (row < args.rows && column < args.columns) {
        args.values[row * args.columns + column] = 1.0f;
    }
}

// The product of two 32-bit numbers, which is one.
KERNEL(index_in_32_bits, Matrix) {
    const uint32_t column = blockIdx.x * 32 + threadIdx.x;
    const uint32_t row = blockIdx.y;
    if (row < args.rows && column < args.columns) {
        args.values[row * args.columns + column] = 1.0f;
    }
}
