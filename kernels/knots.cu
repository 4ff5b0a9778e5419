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

// The thresholds of a feature: from `first` on, neighbours are `SPACING` apart.
template <uint32_t SPACING>
struct Thresholds {
    const float* values;
    uint32_t first;
    uint32_t first_step;

    // How many are below x. No branch depends on x.
    __device__ __forceinline__ uint32_t piece(float x) const {
        uint32_t piece = 0;
        for (uint32_t step = first_step; step > 0; step /= 2) {
            piece += values[first + (piece + step - 1) * SPACING] < x ? step : 0;
        }
        return piece;
    }
};

__device__ __forceinline__ Thresholds<1> global_thresholds(const Knots& knots, uint32_t k) {
    return {knots.thresholds + static_cast<uint64_t>(k) * knots.most_thresholds, 0, (knots.threshold_count[k] + 1) / 2};
}

// Copies those of the lane's feature to `shared`; all warps of a block take part. The caller synchronises.
__device__ __forceinline__ Thresholds<LANES> shared_thresholds(float* shared, const Knots& knots, uint32_t k, bool active) {
    const uint32_t count = active ? knots.threshold_count[k] : 0;
    const float* own = knots.thresholds + static_cast<uint64_t>(active ? k : 0) * knots.most_thresholds;
    for (uint32_t at = threadIdx.y; at < count; at += blockDim.y) {
        shared[at * LANES + threadIdx.x] = own[at];
    }
    return {shared, threadIdx.x, (count + 1) / 2};
}

// Rows that a lane has under way at once; backward, twice as many loads.
constexpr int AHEAD = 8;

// Where the thresholds end that are below each of `AHEAD` points: all points half by half.
template <uint32_t SPACING>
__device__ __forceinline__ void find_pieces(
    uint32_t (&below)[AHEAD], const Thresholds<SPACING>& thresholds, const float (&x)[AHEAD]) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
        below[i] = thresholds.first;
    }
    // A power of two, or none.
    for (uint32_t half = thresholds.first_step * SPACING; half >= SPACING; half /= 2) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const uint32_t further = below[i] + half;
            below[i] = thresholds.values[further - SPACING] < x[i] ? further : below[i];
        }
    }
}

// Rows of a lane: the next of them, and elements from one to the next.
struct Rows {
    uint64_t row;
    uint64_t last;
    uint32_t step;
    uint64_t stride;
};

// Responses at the rows of one lane. Whether inputs are dropped is asked once, so that no branch stands between the loads of a
// batch; tables are known to be in shared memory or not, so that reading them is a plain load.
template <bool MASKED, uint32_t SPACING>
__device__ __forceinline__ void look_up(
    const KnotsForward& args, const Thresholds<SPACING>& thresholds, const float* lines, Rows rows, uint32_t k,
    float factor) {
    uint64_t at = rows.row * args.knots.features + k;
    for (; rows.row + static_cast<uint64_t>(AHEAD - 1) * rows.step < rows.last;
         rows.row += static_cast<uint64_t>(AHEAD) * rows.step, at += AHEAD * rows.stride) {
        float x[AHEAD];
        uint32_t below[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            x[i] = __ldg(args.features + (at + i * rows.stride));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (MASKED) {
                x[i] = masked_input(args.dropout, x[i], at + i * rows.stride);
            }
        }
        find_pieces(below, thresholds, x);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const float* line = lines + (2 * below[i] - thresholds.first);
            args.responses[at + i * rows.stride] = fmaf(line[0], x[i], line[SPACING]) * factor;
        }
    }
    for (; rows.row < rows.last; rows.row += rows.step, at += rows.stride) {
        const float x = MASKED ? masked_input(args.dropout, __ldg(args.features + at), at) : __ldg(args.features + at);
        const float* line = lines + thresholds.first + 2 * thresholds.piece(x) * SPACING;
        args.responses[at] = fmaf(line[0], x, line[SPACING]) * factor;
    }
}

template <uint32_t SPACING>
__device__ __forceinline__ void look_up_any(
    const KnotsForward& args, const Thresholds<SPACING>& thresholds, const float* lines, Rows rows, uint32_t k) {
    const float factor = response_factor(args.dropout, k);
    if (args.dropout.place == HARMONIA_DROP_INPUT) {
        look_up<true>(args, thresholds, lines, rows, k, factor);
    } else {
        look_up<false>(args, thresholds, lines, rows, k, factor);
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
    const uint64_t first = blockIdx.y * args.block_rows;
    const uint32_t step = blockDim.y * row_lanes;
    const Rows rows = {
        first + threadIdx.y * row_lanes + threadIdx.x / knots.lanes, smaller(first + args.block_rows, args.nodes), step,
        step * d};
    if (!knots.in_shared) {
        if (active) {
            look_up_any(args, global_thresholds(knots, k), lines, rows, k);
        }
        return; // the whole block
    }
    const Thresholds<LANES> thresholds = shared_thresholds(shared, knots, k, active);
    float* own = shared + knots.most_thresholds * LANES;
    const uint32_t length = active ? 2 * knots.piece_count[k] : 0;
    for (uint32_t at = threadIdx.y; at < length; at += blockDim.y) {
        own[at * LANES + threadIdx.x] = lines[at];
    }
    __syncthreads();
    if (active) {
        look_up_any(args, thresholds, own, rows, k);
    }
}

// `AHEAD` points of a lane, from an element on.
struct Points {
    float x[AHEAD];
    float g[AHEAD];

    __device__ __forceinline__ void load(const KnotsBackward& args, uint64_t at, uint64_t stride) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            x[i] = __ldg(args.features + (at + i * stride));
            g[i] = __ldg(args.d_responses + (at + i * stride));
        }
    }
};

// Adds the points of one lane to `sums`; the rest as in `look_up`. A multiprocessor has room for the sums of few warps: they
// wait for nothing, because the points of a batch are asked for while the batch before is added.
template <bool MASKED, uint32_t SPACING>
__device__ __forceinline__ void sum_points(
    float* sums, const Thresholds<SPACING>& thresholds, const KnotsBackward& args, Rows rows, uint32_t k, float factor) {
    uint64_t at = rows.row * args.knots.features + k;
    const uint64_t points = rows.row < rows.last ? (rows.last - rows.row - 1) / rows.step + 1 : 0;
    const uint64_t batches = points / AHEAD;
    rows.row += batches * AHEAD * rows.step;
    Points ahead[2];
    if (batches > 0) {
        ahead[0].load(args, at, rows.stride);
        ahead[1].load(args, batches > 1 ? at + AHEAD * rows.stride : at, rows.stride);
    }
#pragma unroll 2
    for (uint64_t batch = 0; batch < batches; ++batch) {
        Points now = ahead[0];
        ahead[0] = ahead[1];
        // Those behind the last are not there: its own once more.
        ahead[1].load(args, batch + 2 < batches ? at + 2 * AHEAD * rows.stride : at, rows.stride);
        if (MASKED) {
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                now.x[i] = masked_input(args.dropout, now.x[i], at + i * rows.stride);
            }
        }
        at += AHEAD * rows.stride;
        uint32_t below[AHEAD];
        find_pieces(below, thresholds, now.x);
#pragma unroll
        for (int i = 0; i < AHEAD; i += 2) {
            // Two at a time, so that the second does not wait for the first, whose sums it may have: then it is told them.
            float* one = sums + (2 * (below[i] - thresholds.first) * (LANES / SPACING) + threadIdx.x);
            float* other = sums + (2 * (below[i + 1] - thresholds.first) * (LANES / SPACING) + threadIdx.x);
            const float g_one = now.g[i] * factor;
            const float g_other = now.g[i + 1] * factor;
            const float g_x_before = other[0];
            const float g_before = other[LANES];
            const float g_x_sum = fmaf(g_one, now.x[i], one[0]);
            const float g_sum = one[LANES] + g_one;
            one[0] = g_x_sum;
            one[LANES] = g_sum;
            other[0] = fmaf(g_other, now.x[i + 1], one == other ? g_x_sum : g_x_before);
            other[LANES] = (one == other ? g_sum : g_before) + g_other;
        }
    }
    for (; rows.row < rows.last; rows.row += rows.step, at += rows.stride) {
        const float x = MASKED ? masked_input(args.dropout, __ldg(args.features + at), at) : __ldg(args.features + at);
        const float g = __ldg(args.d_responses + at) * factor;
        float* sum = sums + 2 * thresholds.piece(x) * LANES + threadIdx.x;
        sum[0] = fmaf(g, x, sum[0]);
        sum[LANES] += g;
    }
}

// Sums of one chunk, by one warp: each lane's, then those of lanes that took rows of one feature.
template <uint32_t SPACING>
__device__ __forceinline__ void sum_chunk(
    float* sums, const Thresholds<SPACING>& thresholds, const KnotsBackward& args, uint64_t chunk, uint32_t k) {
    const Knots& knots = args.knots;
    const uint64_t d = knots.features;
    const bool active = k < d;
    const uint32_t length = active ? 2 * knots.piece_count[k] : 0;
    for (uint32_t at = 0; at < length; ++at) {
        sums[at * LANES + threadIdx.x] = 0.0f;
    }
    if (active) {
        const float factor = response_factor(args.dropout, k);
        const uint32_t row_lanes = LANES / knots.lanes;
        const uint64_t first = chunk * args.chunk_rows;
        const Rows rows = {
            first + threadIdx.x / knots.lanes, smaller(first + args.chunk_rows, args.nodes), row_lanes, row_lanes * d};
        if (args.dropout.place == HARMONIA_DROP_INPUT) {
            sum_points<true>(sums, thresholds, args, rows, k, factor);
        } else {
            sum_points<false>(sums, thresholds, args, rows, k, factor);
        }
    }
    __syncwarp();
    if (threadIdx.x < knots.lanes) {
        float* chunk_sums = args.sums + chunk * knots.stride * 2 * d + k;
        for (uint32_t at = 0; at < length; ++at) {
            float total = 0.0f;
            for (uint32_t lane = 0; lane < LANES; lane += knots.lanes) {
                total += sums[at * LANES + threadIdx.x + lane];
            }
            chunk_sums[at * d] = total;
        }
    }
}

// Block 32 x at most 8; grid: tiles of features, chunks of rows by the warps of a block. Shared memory: thresholds, then sums of
// each warp, of 32 lanes.
KERNEL(knots_backward, KnotsBackward) {
    DYNAMIC_SHARED(float, shared);
    const Knots& knots = args.knots;
    const uint32_t k = blockIdx.x * knots.lanes + threadIdx.x % knots.lanes;
    const bool active = k < knots.features;
    const uint64_t chunk = static_cast<uint64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const uint64_t table = static_cast<uint64_t>(knots.stride) * 2 * LANES;
    // Either way the whole warp leaves where there is no chunk for it, and no block barrier follows.
    if (!knots.in_shared) {
        if (chunk < args.chunks) {
            float* sums = args.tables + (static_cast<uint64_t>(blockIdx.x) * args.chunks + chunk) * table;
            sum_chunk(sums, global_thresholds(knots, active ? k : 0), args, chunk, k);
        }
        return;
    }
    const Thresholds<LANES> thresholds = shared_thresholds(shared, knots, k, active);
    __syncthreads();
    if (chunk < args.chunks) {
        float* sums = shared + knots.most_thresholds * LANES + threadIdx.y * table;
        sum_chunk(sums, thresholds, args, chunk, k);
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
    const Thresholds<1> thresholds = global_thresholds(args.knots, k);
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
    const Thresholds<1> thresholds = global_thresholds(args.knots, k);
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
