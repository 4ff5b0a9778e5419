// Mixture of Neural Bases by pieces: every response is a line on each piece, found by counting thresholds.
//
// Forward   p = number of thresholds below x, F[i,k] = slope[k,p] x + intercept[k,p]
// Backward  G1[k,p] = sum of g x, G0[k,p] = sum of g over the points in p; differentiate.cu turns them into gradients
// Sparse X  points of a feature are its non-zeros and, once for all the others, zero: f(0), f(x) - f(0); what the non-zeros
//           leave of the column's sum of g belongs to the piece of zero.
// Shapes    X, F, dF n x d, or d + nnz where X is sparse; thresholds d x most; lines d x stride x 2; sums stride x 2 x d, of
//           which those of the pieces there are
// Threads   dense: lanes over features, so that rows are read coalesced, and over rows where there are fewer than 32. Tables
//           and sums stand as [entry][lane]: a lane only ever meets its own bank of shared memory, and no two lanes share a
//           sum. Where they do not fit, they stand in global memory. Backward, a warp has a chunk of rows of its own.
//           Sparse: a warp per segment of a column, lanes over non-zeros; backward, lane l owns the pieces l, l + 32, ...
// Bytes     X read and F written once (backward: X and dF read once), tables once per block, sums once per chunk.
// Deterministic: a sum belongs to one thread, which takes its points in order; knots_sums adds the chunks in order. How many
// pieces there is room for, or warps in a block, changes nothing.

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
    return {knots.thresholds + static_cast<uint64_t>(k) * knots.most_thresholds, 1, (knots.threshold_count[k] + 1) / 2};
}

// Copies those of the lane's feature to `shared`; all warps of a block take part. The caller synchronises.
__device__ __forceinline__ Thresholds shared_thresholds(float* shared, const Knots& knots, uint32_t k, bool active) {
    const uint32_t count = active ? knots.threshold_count[k] : 0;
    const float* own = knots.thresholds + static_cast<uint64_t>(active ? k : 0) * knots.most_thresholds;
    for (uint32_t at = threadIdx.y; at < count; at += blockDim.y) {
        shared[at * LANES + threadIdx.x] = own[at];
    }
    return {shared + threadIdx.x, LANES, (count + 1) / 2};
}

// Rows that a lane has under way at once; backward, twice as many loads.
constexpr int AHEAD = 8;

// Pieces of `AHEAD` points, all of them half by half.
__device__ __forceinline__ void find_pieces(
    uint32_t (&piece)[AHEAD], const Thresholds& thresholds, const float (&x)[AHEAD]) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
        piece[i] = 0;
    }
    for (uint32_t half = thresholds.first_step; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            piece[i] += thresholds.values[(piece[i] + half - 1) * thresholds.spacing] < x[i] ? half : 0;
        }
    }
}

// Responses at the rows of one lane, from `row` on, `step` apart. Whether inputs are dropped is asked once, so that no branch
// stands between the loads of a batch.
template <bool MASKED>
__device__ __forceinline__ void look_up(
    const KnotsForward& args, const Thresholds& thresholds, const float* lines, uint32_t spacing, uint64_t row,
    uint64_t last, uint32_t step, uint32_t k, float factor) {
    const uint64_t d = args.knots.features;
    for (; row + static_cast<uint64_t>(AHEAD - 1) * step < last; row += static_cast<uint64_t>(AHEAD) * step) {
        float x[AHEAD];
        uint32_t piece[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            x[i] = __ldg(args.features + (row + static_cast<uint64_t>(i) * step) * d + k);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (MASKED) {
                x[i] = masked_input(args.dropout, x[i], (row + static_cast<uint64_t>(i) * step) * d + k);
            }
        }
        find_pieces(piece, thresholds, x);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const float* line = lines + 2 * piece[i] * spacing;
            const uint64_t at = (row + static_cast<uint64_t>(i) * step) * d + k;
            args.responses[at] = fmaf(line[0], x[i], line[spacing]) * factor;
        }
    }
    for (; row < last; row += step) {
        const uint64_t at = row * d + k;
        const float x = MASKED ? masked_input(args.dropout, __ldg(args.features + at), at) : __ldg(args.features + at);
        const float* line = lines + 2 * thresholds.piece(x) * spacing;
        args.responses[at] = fmaf(line[0], x, line[spacing]) * factor;
    }
}

// Block 32 x 8, or 32 x 16; grid: tiles of features, blocks of rows. Shared memory: thresholds, then lines, of 32 lanes.
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
        const uint32_t length = active ? 2 * knots.piece_count[k] : 0;
        for (uint32_t at = threadIdx.y; at < length; at += blockDim.y) {
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
    const uint64_t row = first + threadIdx.y * row_lanes + threadIdx.x / knots.lanes;
    if (args.dropout.place == HARMONIA_DROP_INPUT) {
        look_up<true>(args, thresholds, lines, spacing, row, last, step, k, factor);
    } else {
        look_up<false>(args, thresholds, lines, spacing, row, last, step, k, factor);
    }
}

// The points of one lane: rows from `row` on, `step` apart. Whether inputs are dropped is asked once, so that no branch
// stands between the loads of a batch.
template <bool MASKED>
__device__ __forceinline__ void sum_points(
    float* sums, const Thresholds& thresholds, const KnotsBackward& args, uint64_t row, uint64_t last, uint32_t step,
    uint32_t k, float factor) {
    const uint64_t d = args.knots.features;
    for (; row + static_cast<uint64_t>(AHEAD - 1) * step < last; row += static_cast<uint64_t>(AHEAD) * step) {
        float x[AHEAD];
        float g[AHEAD];
        uint32_t piece[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const uint64_t at = (row + static_cast<uint64_t>(i) * step) * d + k;
            x[i] = __ldg(args.features + at);
            g[i] = __ldg(args.d_responses + at);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (MASKED) {
                x[i] = masked_input(args.dropout, x[i], (row + static_cast<uint64_t>(i) * step) * d + k);
            }
        }
        find_pieces(piece, thresholds, x);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            float* sum = sums + 2 * piece[i] * LANES;
            const float g_i = g[i] * factor;
            sum[0] = fmaf(g_i, x[i], sum[0]);
            sum[LANES] += g_i;
        }
    }
    for (; row < last; row += step) {
        const uint64_t at = row * d + k;
        const float x = MASKED ? masked_input(args.dropout, __ldg(args.features + at), at) : __ldg(args.features + at);
        const float g = __ldg(args.d_responses + at) * factor;
        float* sum = sums + 2 * thresholds.piece(x) * LANES;
        sum[0] = fmaf(g, x, sum[0]);
        sum[LANES] += g;
    }
}

// Block 32 x at most 8; grid: tiles of features, chunks of rows by the warps of a block. Shared memory: thresholds, then sums of
// each warp, of 32 lanes.
KERNEL(knots_backward, KnotsBackward) {
    DYNAMIC_SHARED(float, shared);
    const Knots& knots = args.knots;
    const uint64_t d = knots.features;
    const uint32_t k = blockIdx.x * knots.lanes + threadIdx.x % knots.lanes;
    const bool active = k < d;
    const uint64_t chunk = static_cast<uint64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const uint64_t table = static_cast<uint64_t>(knots.stride) * 2 * LANES;
    Thresholds thresholds;
    float* sums;
    if (knots.in_shared) {
        thresholds = shared_thresholds(shared, knots, k, active);
        sums = shared + knots.most_thresholds * LANES + threadIdx.y * table + threadIdx.x;
        __syncthreads();
    } else {
        thresholds = global_thresholds(knots, active ? k : 0);
        sums = args.tables + (static_cast<uint64_t>(blockIdx.x) * args.chunks + chunk) * table + threadIdx.x;
    }
    if (chunk >= args.chunks) {
        return; // the whole warp; no block barrier follows
    }
    const uint32_t length = active ? 2 * knots.piece_count[k] : 0;
    for (uint32_t at = 0; at < length; ++at) {
        sums[at * LANES] = 0.0f;
    }
    if (active) {
        const float factor = response_factor(args.dropout, k);
        const uint32_t row_lanes = LANES / knots.lanes;
        const uint64_t first = chunk * args.chunk_rows;
        const uint64_t last = smaller(first + args.chunk_rows, args.nodes);
        const uint64_t row = first + threadIdx.x / knots.lanes;
        if (args.dropout.place == HARMONIA_DROP_INPUT) {
            sum_points<true>(sums, thresholds, args, row, last, row_lanes, k, factor);
        } else {
            sum_points<false>(sums, thresholds, args, row, last, row_lanes, k, factor);
        }
    }
    __syncwarp();
    // One thread per feature: over the lanes that took rows of it.
    if (threadIdx.x < knots.lanes) {
        float* chunk_sums = args.sums + chunk * knots.stride * 2 * d + k;
        for (uint32_t at = 0; at < length; ++at) {
            float total = 0.0f;
            for (uint32_t lane = 0; lane < LANES; lane += knots.lanes) {
                total += sums[at * LANES + lane];
            }
            chunk_sums[at * d] = total;
        }
    }
}

// Sums of all chunks, of the pieces there are. Block 32 columns x 8 slices of chunks; grid: tiles of columns, entries.
KERNEL(knots_sums, KnotsSums) {
    __shared__ float slices[HARMONIA_SUM_SLICES][HARMONIA_SUM_COLUMNS];
    const uint64_t d = args.features;
    const uint32_t tiles = static_cast<uint32_t>((d + HARMONIA_SUM_COLUMNS - 1) / HARMONIA_SUM_COLUMNS);
    const uint64_t k = static_cast<uint64_t>(blockIdx.x % tiles) * HARMONIA_SUM_COLUMNS + threadIdx.x;
    const uint64_t entry = blockIdx.x / tiles;
    const bool active = k < d && entry < 2 * args.piece_count[k < d ? k : 0];
    float sum = 0.0f;
    if (active) {
        for (uint64_t chunk = threadIdx.y; chunk < args.chunks; chunk += HARMONIA_SUM_SLICES) {
            sum += args.chunk_sums[(chunk * args.stride * 2 + entry) * d + k];
        }
    }
    slices[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && active) {
        for (int slice = 1; slice < HARMONIA_SUM_SLICES; ++slice) {
            sum += slices[slice][threadIdx.x];
        }
        args.sums[entry * d + k] = sum;
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
    const uint32_t pieces = args.knots.piece_count[k];
    for (uint32_t piece = lane; piece < pieces; piece += LANES) {
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
    const uint32_t pieces = args.knots.piece_count[k];
    const float factor = response_factor(args.dropout, k);
    float taken = 0.0f;
    for (uint32_t piece = threadIdx.x; piece < pieces; piece += LANES) {
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
