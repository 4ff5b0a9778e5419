// The second stage of every reduction: sums of columns, and of squares.
//
// Threads   column_sums: 32 columns x 8 slices of rows per block, so that rows are read coalesced; slices are added in
//           order. square_sums: one double per block; judge_loss and judge_norm add them up.
// sum_ranks one thread per element: what every process has of it, in the order of processes.
// Largest   of values, and from it the scale of states as half: two stages, neither seen by the host.
// Bytes     every value once. Deterministic: the order depends on sizes only.

#include "warp.cuh"

// sums[part, column] = sum of values over the rows of the part. Grid: columns / 32, parts.
KERNEL(column_sums, ColumnSums) {
    __shared__ float slices[HARMONIA_SUM_SLICES][HARMONIA_SUM_COLUMNS];
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * HARMONIA_SUM_COLUMNS + threadIdx.x;
    const uint64_t first = blockIdx.y * args.part_rows;
    const uint64_t last = first + args.part_rows < args.rows ? first + args.part_rows : args.rows;
    float sum = 0.0f;
    if (column < args.columns) {
        for (uint64_t row = first + threadIdx.y; row < last; row += HARMONIA_SUM_SLICES) {
            sum += args.values[row * args.columns + column];
        }
    }
    slices[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < args.columns) {
        for (int slice = 1; slice < HARMONIA_SUM_SLICES; ++slice) {
            sum += slices[slice][threadIdx.x];
        }
        float* out = args.sums + blockIdx.y * args.columns + column;
        *out = args.accumulate ? *out + sum : sum;
    }
}

// sum[at] = parts[0, at] + parts[1, at] + ..., in double: the bits that processes get who sum on the host (`team::sum`).
KERNEL(sum_ranks, SumRanks) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.length) {
        double sum = 0.0;
        for (uint64_t rank = 0; rank < args.ranks; ++rank) {
            sum += args.parts[rank * args.length + at];
        }
        args.sum[at] = static_cast<float>(sum);
    }
}

// partial[block] = sum of squares over the block's stretch of values.
KERNEL(square_sums, SquareSums) {
    const uint64_t first = blockIdx.x * args.block_length;
    const uint64_t last = first + args.block_length < args.length ? first + args.block_length : args.length;
    double sum = 0.0;
    for (uint64_t at = first + threadIdx.x; at < last; at += blockDim.x) {
        const double value = args.values[at];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        args.partial[blockIdx.x] = sum;
    }
}

// Largest of the values of a block, none below zero, in thread 0.
__device__ __forceinline__ float block_largest(float most) {
    __shared__ float warps[LANES];
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        most = fmaxf(most, __shfl_xor_sync(FULL_WARP, most, offset));
    }
    if (threadIdx.x % LANES == 0) {
        warps[threadIdx.x / LANES] = most;
    }
    __syncthreads();
    for (unsigned warp = 1; threadIdx.x == 0 && warp < blockDim.x / LANES; ++warp) {
        most = fmaxf(most, warps[warp]);
    }
    return most;
}

// partial[block] = largest |value|, or |value / degree of its row|, of the block's stretch: what a stored state will be.
KERNEL(largest, Largest) {
    const uint64_t first = blockIdx.x * args.block_length;
    const uint64_t last = first + args.block_length < args.length ? first + args.block_length : args.length;
    float most = 0.0f;
    for (uint64_t at = first + threadIdx.x; at < last; at += blockDim.x) {
        const float factor = args.inverse_degree ? __ldg(args.inverse_degree + at / args.columns) : 1.0f;
        most = fmaxf(most, fabsf(args.values[at] * factor));
    }
    most = block_largest(most);
    if (threadIdx.x == 0) {
        args.partial[blockIdx.x] = most;
    }
}

// One block: the scale of states as half. The exponent of a quotient is that of the largest power of two that is not above it.
KERNEL(half_scale, HalfScale) {
    float most = 0.0f;
    for (uint64_t at = threadIdx.x; at < args.length; at += blockDim.x) {
        most = fmaxf(most, args.partial[at]);
    }
    most = block_largest(most);
    if (threadIdx.x == 0) {
        const float quotient = args.size / (most * args.factor);
        const int exponent = static_cast<int>(__float_as_uint(quotient) >> 23) - 127;
        const int kept = exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
        // Nothing to scale: a quotient without end, or of something without.
        const bool scaled = quotient > 0.0f && quotient <= 3.4028234663852886e38f;
        *args.scale = scaled ? __uint_as_float(static_cast<uint32_t>(kept + 127) << 23) : 1.0f;
    }
}

// Sum of the partial results, in thread 0 of the one block.
__device__ __forceinline__ double total(const Judge& args) {
    double sum = 0.0;
    for (uint64_t at = threadIdx.x; at < args.length; at += blockDim.x) {
        sum += args.partial[at];
    }
    return block_sum(sum);
}

// One block: the mean loss.
KERNEL(judge_loss, Judge) {
    const double sum = total(args);
    if (threadIdx.x == 0) {
        args.verdict->loss = sum / args.count;
    }
}

// One block: the norm; where it or the loss is not a number, nothing is updated from here on.
KERNEL(judge_norm, Judge) {
    const double sum = total(args);
    if (threadIdx.x == 0) {
        const double norm = sqrt(sum);
        const double largest = 1.7976931348623157e308;
        args.verdict->norm = norm;
        // NaN is not below anything.
        const bool finite = norm <= largest && fabs(args.verdict->loss) <= largest;
        args.verdict->halted |= finite ? 0 : HARMONIA_HALT_NUMBER;
    }
}
