// Class space: from responses to the states of all hops, and back. The products of dense matrices are the driver's.
//
// Forward   G_t = F (theta_t (*) Wo) for every t: one product F W with W = the theta_t (*) Wo side by side, d x (T width)
// Backward  S = F^T Y, dF = Y W^T with the Y_t side by side: dWo += sum_t theta_t (*) S_t, dtheta[t,k] = <Wo[k,:], S_t[k,:]>.
//           What is stored is Y_t over the degree of the row, times a scale: `project_load` undoes both.
// Sparse X  F = 1 f(0)^T + R with R on the non-zeros only: states = 1 (f(0)^T W) + R W; S = R^T Y + f(0) (1^T Y), and of dF
//           only the non-zeros and the sums over columns are needed. Neither F nor dF is ever dense.
// Shapes    states n x columns, columns = T width, width = L padded; W and S d x columns; R nnz, column by column
// Threads   small kernels: one per element. Sparse forward: a warp per row, lanes over columns. Sparse backward: S by segments
//           of columns, a warp each, lanes over columns; dF by segments too, eight lanes per non-zero.
// Bytes     load and store: every element once. Sparse: nnz x columns of W (forward) or of states (backward, twice) gathered.
// Deterministic: rows and segments are summed in order, segments of a column likewise.

#include "math.cuh"
#include "state.cuh"
#include "warp.cuh"

constexpr int PROJECT_WARPS = HARMONIA_ROW_THREADS / LANES;
// Lanes that share a non-zero.
constexpr uint32_t DOT_LANES = 8;

// One thread per element of W.
KERNEL(project_weights, ProjectWeights) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t columns = static_cast<uint64_t>(args.hops) * args.width;
    if (at >= args.features * columns) {
        return;
    }
    const uint64_t k = at / columns;
    const uint64_t t = at % columns / args.width;
    const uint64_t output = at % args.width;
    const bool padded = output >= args.outputs;
    args.weights[at] =
        padded ? 0.0f : args.hop_weights[t * args.features + k] * args.readout[k * args.outputs + output];
}

// One thread per element of Wo.
KERNEL(project_readout_gradient, ProjectGradients) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<uint64_t>(args.features) * args.outputs) {
        return;
    }
    const uint64_t k = at / args.outputs;
    const float* sums = args.sums + k * args.hops * args.width + at % args.outputs;
    float total = 0.0f;
    for (uint64_t t = 0; t < args.hops; ++t) {
        total = fmaf(args.hop_weights[t * args.features + k], sums[t * args.width], total);
    }
    args.d_readout[at] += total;
}

// One thread per element of theta.
KERNEL(project_hops_gradient, ProjectGradients) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<uint64_t>(args.features) * args.hops) {
        return;
    }
    const uint64_t t = at / args.features;
    const uint64_t k = at % args.features;
    const float* sums = args.sums + (k * args.hops + t) * args.width;
    float total = 0.0f;
    for (uint32_t output = 0; output < args.outputs; ++output) {
        total = fmaf(args.readout[k * args.outputs + output], sums[output], total);
    }
    args.d_hop_weights[at] = total;
}

// What turns a stored row into Y.
template <typename S>
__device__ __forceinline__ float row_factor(const float* inverse_degree, const float* scale, uint64_t row) {
    const float unscale = 1.0f / stored_scale<S>(scale);
    return inverse_degree ? unscale / __ldg(inverse_degree + row) : unscale;
}

// One thread per element: Y of some rows, from how they are stored.
template <typename S>
__device__ __forceinline__ void project_load(const ProjectStates& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.rows * args.columns) {
        const float factor = row_factor<S>(args.inverse_degree, args.scale, at / args.columns);
        args.values[at] = to_float(static_cast<const S*>(args.states)[at]) * factor;
    }
}

// One thread per element: stores G of some rows.
template <typename S>
__device__ __forceinline__ void project_store(const ProjectStates& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.rows * args.columns) {
        static_cast<S*>(args.states)[at] = from_float<S>(args.values[at]);
    }
}

// 1^T Y over the rows of a part. Block 32 x 8; grid: tiles of 32 columns, parts of rows.
template <typename S>
__device__ __forceinline__ void project_totals(const ProjectStates& args) {
    __shared__ float slices[HARMONIA_SUM_SLICES][HARMONIA_SUM_COLUMNS];
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * HARMONIA_SUM_COLUMNS + threadIdx.x;
    const uint64_t first = blockIdx.y * args.part_rows;
    const uint64_t last = smaller(first + args.part_rows, args.rows);
    float sum = 0.0f;
    if (column < args.columns) {
        for (uint64_t row = first + threadIdx.y; row < last; row += HARMONIA_SUM_SLICES) {
            const float state = to_float(static_cast<const S*>(args.states)[row * args.columns + column]);
            sum = fmaf(state, row_factor<S>(args.inverse_degree, args.scale, row), sum);
        }
    }
    slices[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < args.columns) {
        for (int slice = 1; slice < HARMONIA_SUM_SLICES; ++slice) {
            sum += slices[slice][threadIdx.x];
        }
        args.values[blockIdx.y * static_cast<uint64_t>(args.columns) + column] = sum;
    }
}

// states = 1 base + R W. Block 32 x 8; grid: tiles of 32 columns, blocks of rows.
template <typename S>
__device__ __forceinline__ void project_sparse_forward(const ProjectSparseForward& args) {
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * LANES + threadIdx.x;
    if (column >= args.columns) {
        return; // there is no barrier
    }
    const float base = args.base[column];
    const float* responses = args.responses + args.features;
    const uint64_t first = blockIdx.y * args.block_rows;
    const uint64_t last = smaller(first + args.block_rows, args.rows);
    for (uint64_t row = first + threadIdx.y; row < last; row += PROJECT_WARPS) {
        float sum = base;
#pragma unroll 4
        for (uint64_t entry = args.row_ptr[row]; entry < args.row_ptr[row + 1]; ++entry) {
            const float response = __ldg(responses + __ldg(args.places + entry));
            const uint64_t k = __ldg(args.col_idx + entry);
            sum = fmaf(response, __ldg(args.weights + k * args.columns + column), sum);
        }
        static_cast<S*>(args.states)[row * args.columns + column] = from_float<S>(sum);
    }
}

// R^T Y over each segment. Block 32 x 8; grid: segments, tiles of 32 columns.
template <typename S>
__device__ __forceinline__ void project_sparse_sums(const ProjectSparseBackward& args) {
    const uint32_t segment = blockIdx.x * PROJECT_WARPS + threadIdx.y;
    const uint64_t column = static_cast<uint64_t>(blockIdx.y) * LANES + threadIdx.x;
    if (segment >= args.x.segments || column >= args.columns) {
        return; // there is no barrier
    }
    const float* responses = args.responses + args.x.features;
    const S* states = static_cast<const S*>(args.states) + column;
    float sum = 0.0f;
#pragma unroll 4
    for (uint64_t place = args.x.begin[segment]; place < args.x.end[segment]; ++place) {
        const uint64_t row = __ldg(args.x.rows + place);
        const float y = to_float(states[row * args.columns]) * row_factor<S>(args.inverse_degree, args.scale, row);
        sum = fmaf(responses[place], y, sum);
    }
    args.segment_sums[segment * static_cast<uint64_t>(args.columns) + column] = sum;
}

// One thread per element of S: its segments in order.
KERNEL(project_sparse_finish, ProjectSparseBackward) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<uint64_t>(args.x.features) * args.columns) {
        return;
    }
    const uint64_t k = at / args.columns;
    float sum = 0.0f;
    for (uint64_t segment = args.x.first_segment[k]; segment < args.x.first_segment[k + 1]; ++segment) {
        sum += args.segment_sums[segment * args.columns + at % args.columns];
    }
    args.sums[at] = sum;
}

// dF of the non-zeros: <Y[i,:], W[k,:]>. Block 256, eight lanes per non-zero; grid: segments.
template <typename S>
__device__ __forceinline__ void project_sparse_backward(const ProjectSparseBackward& args) {
    const uint32_t lane = threadIdx.x % DOT_LANES;
    const uint64_t k = args.x.segment_column[blockIdx.x];
    const float* weights = args.weights + k * args.columns;
    const uint64_t end = args.x.end[blockIdx.x];
    // The bound is the same for all groups of the block: every lane takes part in every shuffle.
    for (uint64_t base = args.x.begin[blockIdx.x]; base < end; base += HARMONIA_ROW_THREADS / DOT_LANES) {
        const uint64_t place = base + threadIdx.x / DOT_LANES;
        float sum = 0.0f;
        uint64_t row = 0;
        if (place < end) {
            row = __ldg(args.x.rows + place);
            const S* state = static_cast<const S*>(args.states) + row * args.columns;
            for (uint32_t column = lane; column < args.columns; column += DOT_LANES) {
                sum = fmaf(to_float(state[column]), __ldg(weights + column), sum);
            }
        }
#pragma unroll
        for (int offset = DOT_LANES / 2; offset > 0; offset /= 2) {
            sum += __shfl_xor_sync(FULL_WARP, sum, offset);
        }
        if (place < end && lane == 0) {
            const float factor = row_factor<S>(args.inverse_degree, args.scale, row);
            args.responses[args.x.features + place] = sum * factor;
        }
    }
}

#define PROJECT(type, S)                                                                                               \
    KERNEL(project_load_##type, ProjectStates) { project_load<S>(args); }                                              \
    KERNEL(project_totals_##type, ProjectStates) { project_totals<S>(args); }                                          \
    KERNEL(project_sparse_forward_##type, ProjectSparseForward) { project_sparse_forward<S>(args); }                   \
    KERNEL(project_sparse_sums_##type, ProjectSparseBackward) { project_sparse_sums<S>(args); }                        \
    KERNEL(project_sparse_backward_##type, ProjectSparseBackward) { project_sparse_backward<S>(args); }

PROJECT(f32, float)
PROJECT(f16, Half)
PROJECT(bf16, BFloat)

// Floats need no storing: the product is the state.
KERNEL(project_store_f16, ProjectStates) {
    project_store<Half>(args);
}

KERNEL(project_store_bf16, ProjectStates) {
    project_store<BFloat>(args);
}
