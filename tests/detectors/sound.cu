// Correct kernels, one for each thing the engine offers. No detector may report any of them.
#include "common.cuh"

struct Sums {
    float* sums;         // one per block
    const float* values; // blocks x threads
};

// Reduction of a block: shuffles inside warps, shared memory between them.
KERNEL(block_sum, Sums) {
    __shared__ float partial[32];
    const unsigned lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    float value = args.values[blockIdx.x * blockDim.x + threadIdx.x];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, step);
    }
    if (lane == 0) {
        partial[warp] = value;
    }
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / warpSize ? partial[lane] : 0.0f;
        for (int step = 16; step > 0; step /= 2) {
            value += __shfl_down_sync(0xffffffffu, value, step);
        }
        if (lane == 0) {
            args.sums[blockIdx.x] = value;
        }
    }
}

struct Transpose {
    float* out;      // columns x rows
    const float* in; // rows x columns
    unsigned rows;
    unsigned columns;
};

// One tile at a time through shared memory, several tiles per block: the second barrier protects the tile from the next round.
KERNEL(transpose, Transpose) {
    __shared__ float tile[16][17];
    const unsigned column_tiles = (args.columns + 15) / 16;
    for (unsigned first = blockIdx.x * 16; first < args.rows; first += gridDim.x * 16) {
        for (unsigned t = 0; t < column_tiles; ++t) {
            const unsigned row = first + threadIdx.y, column = t * 16 + threadIdx.x;
            if (row < args.rows && column < args.columns) {
                tile[threadIdx.y][threadIdx.x] = __ldg(&args.in[row * args.columns + column]);
            }
            __syncthreads();
            const unsigned out_row = t * 16 + threadIdx.y, out_column = first + threadIdx.x;
            if (out_row < args.columns && out_column < args.rows) {
                args.out[out_row * args.rows + out_column] = tile[threadIdx.x][threadIdx.y];
            }
            __syncthreads();
        }
    }
}

struct Histogram {
    unsigned* counts; // 8
    float* total;     // 1
    int* largest;     // 1
    int* smallest;    // 1
    const int* values;
    unsigned length;
};

// Atomics in shared and in global memory.
KERNEL(histogram, Histogram) {
    __shared__ unsigned local[8];
    if (threadIdx.x < 8) {
        local[threadIdx.x] = 0;
    }
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < args.length) {
        atomicAdd(&local[args.values[i] & 7], 1u);
        atomicAdd(args.total, 0.5f);
        atomicMax(args.largest, args.values[i]);
        atomicMin(args.smallest, args.values[i]);
    }
    __syncthreads();
    if (threadIdx.x < 8) {
        atomicAdd(&args.counts[threadIdx.x], local[threadIdx.x]);
    }
}

struct Scan {
    int* out; // blocks x threads
    const int* in;
};

// Inclusive prefix sums of a block in dynamic shared memory, two buffers in turn.
KERNEL(prefix_sums, Scan) {
    DYNAMIC_SHARED(int, buffers); // 2 x threads
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned now = 0;
    buffers[threadIdx.x] = args.in[i];
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        const int* from = buffers + now * blockDim.x;
        int* to = buffers + (1 - now) * blockDim.x;
        to[threadIdx.x] = from[threadIdx.x] + (threadIdx.x >= step ? from[threadIdx.x - step] : 0);
        now = 1 - now;
    }
    args.out[i] = buffers[now * blockDim.x + threadIdx.x];
}

struct Places {
    unsigned* out; // one per thread of the grid
};

// Every index of a three-dimensional grid of three-dimensional blocks.
KERNEL(places, Places) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    args.out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z +
        1000 * (threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z);
}

struct Votes {
    unsigned* out; // threads x 6
    double* rotated;
};

// Votes and shuffles, also of part of a warp; threads that are done leave early where nobody waits for them.
KERNEL(votes, Votes) {
    const unsigned lane = threadIdx.x % 32;
    unsigned* out = args.out + threadIdx.x * 6;
    out[0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
    out[1] = __any_sync(0xffffffffu, threadIdx.x == 40) + 2 * __all_sync(0xffffffffu, threadIdx.x < 32);
    const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    out[2] = __ballot_sync(half, lane % 2);
    out[3] = __shfl_up_sync(0xffffffffu, lane, 3, 16);
    out[4] = __shfl_sync(half, lane, 5, 8);
    args.rotated[threadIdx.x] = __shfl_sync(0xffffffffu, 0.25 * lane, static_cast<int>(lane) + 1);
    if (threadIdx.x >= 32) {
        out[5] = 7;
        return;
    }
    out[5] = __shfl_xor_sync(0xffffffffu, lane, 1);
}

template <int Rows>
__device__ __forceinline__ float exchange(float value) {
    __shared__ float rows[Rows][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    rows[warp][lane] = value;
    __syncwarp();
    value = rows[warp][31 - lane];
    __syncwarp();
    rows[warp][lane] = value + 1.0f;
    __syncwarp(lane < 16 ? 0x0000ffffu : 0xffff0000u);
    return rows[warp][lane ^ 8];
}

struct Exchange {
    float* out;
    const float* in;
};

// Shared memory of a function template, ordered by __syncwarp alone.
KERNEL(warp_exchange, Exchange) { args.out[threadIdx.x] = exchange<4>(args.in[threadIdx.x]) + exchange<5>(1.0f); }

struct Narrow {
    uint16_t* halves; // threads
    float4* vectors;  // threads
    const float4* in; // threads
};

// Neighbouring 16-bit words written by different threads, and 16-byte words.
KERNEL(narrow_and_wide, Narrow) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 value = args.in[i];
    args.halves[i] = static_cast<uint16_t>(value.x);
    args.vectors[i] = make_float4(value.w, value.z, value.y, fmaf(value.x, 2.0f, rsqrtf(4.0f)));
}

struct Spin {
    unsigned* out;
    unsigned rounds;
};

// For timing: nothing but barriers.
KERNEL(barriers, Spin) {
    for (unsigned round = 0; round < args.rounds; ++round) {
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *args.out = args.rounds;
    }
}

// For timing: nothing but shuffles.
KERNEL(shuffles, Spin) {
    unsigned value = threadIdx.x;
    for (unsigned round = 0; round < args.rounds; ++round) {
        value = __shfl_sync(0xffffffffu, value, static_cast<int>(threadIdx.x) + 1);
    }
    args.out[threadIdx.x] = value;
}
