// Mixture of Neural Bases by pieces: every response is a line on each piece, found by counting thresholds.
//
// Forward   p = number of thresholds below x, F[i,k] = slope[k,p] x + intercept[k,p]
// Backward  G1[k,p] = sum of g x, G0[k,p] = sum of g over the points in p; the launcher turns them into gradients
// Sparse X  points of a feature are its non-zeros and, once for all the others, zero: f(0), f(x) - f(0); what the non-zeros
//           leave of the column's sum of g belongs to the piece of zero.
// Shapes    X, F, dF n x d, or d + nnz where X is sparse; thresholds a combination of experts; lines d x stride x 2; sums
//           stride x 2 x d
// Threads   dense: lanes over features, so that rows are read coalesced, and over rows where there are fewer than 32. Tables
//           and sums stand in shared memory as [entry][lane]: a lane only ever meets its own bank, and no two lanes share
//           a sum. Where they do not fit, tables are read, and a block of one warp adds, in global memory.
//           Sparse: a warp per segment of a column, lanes over non-zeros; backward, lane l owns the pieces l, l + 32, ...
// Bytes     X read and F written once (backward: X and dF read once), tables once per block, sums once per chunk.
// Deterministic: a sum belongs to one thread, which takes its points in order; reduce.cu adds the chunks in order.

#include "math.cuh"
#include "sparse.cuh"
#include "warp.cuh"

// The thresholds of a feature; neighbours are `spacing` apart.
struct Thresholds {
    const float* values;
    uint32_t spacing;
    uint32_t first_step;

    // How many are below x. No branch depends on x.
    __device__ __forceinline__ uint32_t piece(float x) const {
        uint32_t piece = 0;
        for (uint32_t step = first_step; step > 0; step /= 2) {
            piece += values[(piece + step - 1) * spacing] < x ? step : 0;
        }
        return piece;
    }
};

__device__ __forceinline__ Thresholds global_thresholds(const Knots& knots, uint32_t k) {
    return {knots.thresholds + knots.first_threshold[k], 1, (knots.threshold_count[k] + 1) / 2};
}

// Copies those of the lane's feature to `shared`; all warps of a block take part. The caller synchronises.
__device__ __forceinline__ Thresholds shared_thresholds(float* shared, const Knots& knots, uint32_t k, bool active) {
    const uint32_t count = active ? knots.threshold_count[k] : 0;
    for (uint32_t at = threadIdx.y; at < count; at += blockDim.y) {
        shared[at * LANES + threadIdx.x] = knots.thresholds[knots.first_threshold[k] + at];
    }
    return {shared + threadIdx.x, LANES, (count + 1) / 2};
}

// Block 32 x 8; grid: tiles of features, blocks of rows. Shared memory: thresholds, then lines, of 32 lanes.
KERNEL(knots_forward, KnotsForward) {
    DYNAMIC_SHARED(float, shared);
    const Knots& knots = args.knots;
    const uint64_t d = knots.features;
    const uint32_t k = blockIdx.x * knots.lanes + threadIdx.x % knots.lanes;
    const bool active = k < d;
    const uint32_t row_lanes = LANES / knots.lanes;
    const float* lines = knots.lines + static_cast<uint64_t>(active ? k : 0) * knots.stride * 2;
    uint32_t spacing = 1;
    Thresholds thresholds;
    if (knots.in_shared) {
        thresholds = shared_thresholds(shared, knots, k, active);
        float* own = shared + knots.most_thresholds * LANES;
        for (uint32_t at = threadIdx.y; active && at < knots.stride * 2; at += blockDim.y) {
            own[at * LANES + threadIdx.x] = lines[at];
        }
        lines = own + threadIdx.x;
        spacing = LANES;
        __syncthreads();
    } else {
        thresholds = global_thresholds(knots, active ? k : 0);
    }
    if (!active) {
        return;
    }
    const float factor = response_factor(args.dropout, k);
    const uint64_t first = blockIdx.y * args.block_rows;
    const uint64_t last = smaller(first + args.block_rows, args.nodes);
    const uint32_t step = blockDim.y * row_lanes;
#pragma unroll 4
    for (uint64_t row = first + threadIdx.y * row_lanes + threadIdx.x / knots.lanes; row < last; row += step) {
        const uint64_t at = row * d + k;
        const float x = masked_input(args.dropout, __ldg(args.features + at), at);
        const float* line = lines + 2 * thresholds.piece(x) * spacing;
        args.responses[at] = fmaf(line[0], x, line[spacing]) * factor;
    }
}

// Block 32 x at most 4; grid: tiles of features, chunks of rows. Shared memory: thresholds, then sums of each warp, of 32
// lanes. In global memory a block is one warp, and no two of its lanes have the same feature.
KERNEL(knots_backward, KnotsBackward) {
    DYNAMIC_SHARED(float, shared);
    const Knots& knots = args.knots;
    const uint64_t d = knots.features;
    const uint32_t k = blockIdx.x * knots.lanes + threadIdx.x % knots.lanes;
    const bool active = k < d;
    const uint32_t row_lanes = LANES / knots.lanes;
    float* chunk_sums = args.sums + static_cast<uint64_t>(blockIdx.y) * knots.stride * 2 * d;
    float* block_sums = shared + knots.most_thresholds * LANES;
    float* sums = chunk_sums + k;
    uint64_t spacing = d;
    Thresholds thresholds;
    if (knots.in_shared) {
        thresholds = shared_thresholds(shared, knots, k, active);
        sums = block_sums + static_cast<uint64_t>(threadIdx.y) * knots.stride * 2 * LANES + threadIdx.x;
        spacing = LANES;
        for (uint32_t at = 0; at < knots.stride * 2; ++at) {
            sums[at * spacing] = 0.0f;
        }
        __syncthreads();
    } else {
        thresholds = global_thresholds(knots, active ? k : 0);
    }
    if (active) {
        const float factor = response_factor(args.dropout, k);
        const uint64_t first = blockIdx.y * args.chunk_rows;
        const uint64_t last = smaller(first + args.chunk_rows, args.nodes);
        const uint32_t step = blockDim.y * row_lanes;
#pragma unroll 4
        for (uint64_t row = first + threadIdx.y * row_lanes + threadIdx.x / knots.lanes; row < last; row += step) {
            const uint64_t at = row * d + k;
            const float x = masked_input(args.dropout, __ldg(args.features + at), at);
            const float g = __ldg(args.d_responses + at) * factor;
            float* sum = sums + 2 * thresholds.piece(x) * spacing;
            sum[0] = fmaf(g, x, sum[0]);
            sum[spacing] += g;
        }
    }
    if (!knots.in_shared) {
        return;
    }
    __syncthreads();
    // One thread per sum of the block: over warps, and over the lanes that took rows of the same feature.
    for (uint32_t at = threadIdx.y; at < knots.stride * 2; at += blockDim.y) {
        if (threadIdx.x < knots.lanes && active) {
            float total = 0.0f;
            for (uint32_t warp = 0; warp < blockDim.y; ++warp) {
                const float* part = block_sums + (static_cast<uint64_t>(warp) * knots.stride * 2 + at) * LANES;
                for (uint32_t lane = threadIdx.x; lane < LANES; lane += knots.lanes) {
                    total += part[lane];
                }
            }
            chunk_sums[at * d + k] = total;
        }
    }
}

// Block 32 x 8; grid: segments.
KERNEL(knots_sparse_forward, KnotsSparseForward) {
    const uint32_t segment = blockIdx.x * blockDim.y + threadIdx.y;
    if (segment >= args.x.segments) {
        return; // the whole warp; there is no barrier
    }
    const uint32_t k = args.x.segment_column[segment];
    const Thresholds thresholds = global_thresholds(args.knots, k);
    const float* lines = args.knots.lines + static_cast<uint64_t>(k) * args.knots.stride * 2;
    const float factor = response_factor(args.dropout, k);
    const float zero = __ldg(lines + 2 * thresholds.piece(0.0f) + 1);
    if (args.x.first_segment[k] == segment && threadIdx.x == 0) {
        args.responses[k] = zero * factor;
    }
    float* responses = args.responses + args.x.features;
    for (uint64_t place = args.x.begin[segment] + threadIdx.x; place < args.x.end[segment]; place += LANES) {
        const float x = sparse_input(args.x, args.dropout, place, k);
        const float* line = lines + 2 * thresholds.piece(x);
        responses[place] = fmaf(__ldg(line), x, __ldg(line + 1) - zero) * factor;
    }
}

// Sums of each segment. Block 32 x 8; grid: segments.
KERNEL(knots_sparse_backward, KnotsSparseBackward) {
    const uint32_t segment = blockIdx.x * blockDim.y + threadIdx.y;
    if (segment >= args.x.segments) {
        return; // the whole warp; there is no block barrier
    }
    const uint32_t lane = threadIdx.x;
    const uint32_t k = args.x.segment_column[segment];
    const Thresholds thresholds = global_thresholds(args.knots, k);
    const float* d_responses = args.d_responses + args.x.features;
    float* sums = args.segment_sums + static_cast<uint64_t>(segment) * args.knots.stride * 2;
    for (uint32_t piece = lane; piece < args.knots.stride; piece += LANES) {
        sums[2 * piece] = 0.0f;
        sums[2 * piece + 1] = 0.0f;
    }
    const uint64_t end = args.x.end[segment];
    for (uint64_t base = args.x.begin[segment]; base < end; base += LANES) {
        float x = 0.0f;
        float g = 0.0f;
        uint32_t piece = 0;
        if (base + lane < end) {
            x = sparse_input(args.x, args.dropout, base + lane, k);
            g = __ldg(d_responses + base + lane);
            piece = thresholds.piece(x);
        }
        const uint32_t count = static_cast<uint32_t>(smaller<uint64_t>(LANES, end - base));
        for (uint32_t from = 0; from < count; ++from) {
            const float x_from = __shfl_sync(FULL_WARP, x, from);
            const float g_from = __shfl_sync(FULL_WARP, g, from);
            const uint32_t piece_from = __shfl_sync(FULL_WARP, piece, from);
            if (piece_from % LANES == lane) {
                sums[2 * piece_from] = fmaf(g_from, x_from, sums[2 * piece_from]);
                sums[2 * piece_from + 1] += g_from;
            }
        }
    }
}

// Sums of a column from those of its segments. Block 32 x 8; grid: features.
KERNEL(knots_sparse_finish, KnotsSparseBackward) {
    const uint32_t k = blockIdx.x * blockDim.y + threadIdx.y;
    const uint64_t d = args.x.features;
    if (k >= d) {
        return; // the whole warp; there is no block barrier
    }
    const uint64_t stride = args.knots.stride;
    const float factor = response_factor(args.dropout, k);
    float taken = 0.0f;
    for (uint32_t piece = threadIdx.x; piece < stride; piece += LANES) {
        float g_x = 0.0f;
        float g = 0.0f;
        for (uint32_t segment = args.x.first_segment[k]; segment < args.x.first_segment[k + 1]; ++segment) {
            const float* sums = args.segment_sums + (segment * stride + piece) * 2;
            g_x += sums[0];
            g += sums[1];
        }
        taken += g;
        args.sums[2 * piece * d + k] = g_x * factor;
        args.sums[(2 * piece + 1) * d + k] = g * factor;
    }
    // What the non-zeros do not take belongs to x = 0.
    const float rest = args.d_responses[k] - warp_sum(taken);
    const uint32_t zero = global_thresholds(args.knots, k).piece(0.0f);
    if (zero % LANES == threadIdx.x) {
        args.sums[(2 * zero + 1) * d + k] += rest * factor;
    }
}
