// Walks on the graph: one hop of the state, fused with everything that reads it.
//
// Forward   z_0 = F, z_{t+1} = M z_t, H = sum_t theta_t (*) z_t
// Backward  y_0 = dH, y_{t+1} = M^T y_t, dF = sum_t theta_t (*) y_t, dtheta[t,k] = <F[:,k], y_t[:,k]>
//           M^T = A^T D^-1, so the stored state is already D^-1 y_t. Stored states carry the factor `state_scale`.
// Shapes    F, H, dF, states n x d; theta_t d; A as CSR with 64-bit offsets and 32-bit columns, values optional
// Threads   >= 32 columns: a warp per row, lanes over columns, four columns per lane where d is a multiple of four;
//           5..31 columns: 8, 16 or 32 lanes per row; <= 4 columns: 8 lanes per row, over its neighbours.
//           Rows with more than HARMONIA_LONG_ROW neighbours are left out, summed segment by segment by the kernels
//           `propagate_partial_*` and finished by `propagate_long_*`: no block is the straggler.
// Scope     of a few scored rows, a hop forward computes the rows that count for them (`rows`), a hop backward reads the
//           states that can be other than zero (`sources`): a zero more or less changes no bit of a sum.
// Bytes     a hop: nnz x d state elements gathered, then n x d (state out, accumulator in and out; backward also F) once
//           each; col_idx and offsets once for every 128 (or 32) columns.
// Deterministic: a row is summed in the order of its entries, dtheta block by block.

#include "math.cuh"
#include "state.cuh"
#include "warp.cuh"

enum class Pass { Forward, Backward, Partial };

// What happens to the gathered sum of row i at column `col`: `sum` is A z (forward) or A^T D^-1 y (backward).
// Adds to `d_theta` in the backward pass.
template <Pass PASS, typename S, int V, typename Args>
__device__ __forceinline__ void finish_row(
    float (&d_theta)[V], const float (&sum)[V], const Args& args, uint64_t row, uint32_t col) {
    const uint64_t at = row * args.cols + col;
    const float inverse_degree = __ldg(args.inverse_degree + row);
    float accumulated[V];
    float theta[V];
    float next[V];
    load<float, V>(accumulated, args.accumulated + at);
    load<float, V>(theta, args.hop_weights + col);
    const float unscale = 1.0f / stored_scale<S>(args.state_scale);
    if (PASS == Pass::Forward) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            next[v] = sum[v] * inverse_degree;
            accumulated[v] = fmaf(theta[v], next[v] * unscale, accumulated[v]);
        }
    } else {
        float response[V];
        load<float, V>(response, args.responses + at);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const float y = sum[v] * unscale;
            next[v] = sum[v] * inverse_degree;
            accumulated[v] = fmaf(theta[v], y, accumulated[v]);
            d_theta[v] = fmaf(response[v], y, d_theta[v]);
        }
    }
    store<float, V>(args.accumulated + at, accumulated);
    if (args.next) {
        store<S, V>(static_cast<S*>(args.next) + at, next);
    }
}

template <int V>
__device__ __forceinline__ void add(float (&sum)[V], const float (&values)[V], float weight) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        sum[v] = fmaf(weight, values[v], sum[v]);
    }
}

// Whether this pass leaves an item to the kernels for long rows.
template <Pass PASS>
__device__ __forceinline__ bool too_long(uint64_t begin, uint64_t end) {
    return PASS != Pass::Partial && end - begin > HARMONIA_LONG_ROW;
}

constexpr int ROW_WARPS = HARMONIA_ROW_THREADS / LANES;

// d >= 32. Block 256; grid: tiles of 32 V columns, blocks of items.
template <Pass PASS, typename S, int V>
__device__ void propagate_wide(const Propagate& args) {
    // Entries of the row, 32 at a time: loaded coalesced, read by all lanes.
    __shared__ uint32_t columns[ROW_WARPS][LANES];
    __shared__ float weights[ROW_WARPS][LANES];
    __shared__ __align__(16) float block_sums[ROW_WARPS][LANES * V];
    const uint32_t lane = threadIdx.x % LANES;
    const uint32_t warp = threadIdx.x / LANES;
    const uint32_t col = (blockIdx.x * LANES + lane) * V;
    const bool active = col < args.cols;
    const S* state = static_cast<const S*>(args.state) + col;
    const uint64_t first = blockIdx.y * args.block_items;
    const uint64_t last = smaller(first + args.block_items, args.items);
    float d_theta[V] = {};
    for (uint64_t item = first + warp; item < last; item += ROW_WARPS) {
        if (PASS == Pass::Forward && !contains(args.rows, item)) {
            continue;
        }
        const uint64_t begin = args.begin[item];
        const uint64_t end = args.end[item];
        if (too_long<PASS>(begin, end)) {
            continue;
        }
        float sum[V] = {};
        for (uint64_t base = begin; base < end; base += LANES) {
            uint32_t count = static_cast<uint32_t>(smaller<uint64_t>(LANES, end - base));
            uint32_t place = lane;
            bool kept = lane < count;
            const uint32_t column = kept ? args.col_idx[base + lane] : 0;
            if (PASS != Pass::Forward && args.sources) {
                kept = kept && contains(args.sources, column);
                const unsigned all_kept = __ballot_sync(FULL_WARP, kept);
                place = __popc(all_kept & ((1u << lane) - 1));
                count = __popc(all_kept);
            }
            __syncwarp();
            if (kept) {
                columns[warp][place] = column;
                if (args.weights) {
                    weights[warp][place] = args.weights[base + lane];
                }
            }
            __syncwarp();
            if (!active) {
                continue;
            }
            if (args.weights) {
#pragma unroll 4
                for (uint32_t entry = 0; entry < count; ++entry) {
                    float values[V];
                    load<S, V>(values, state + static_cast<uint64_t>(columns[warp][entry]) * args.cols);
                    add(sum, values, weights[warp][entry]);
                }
            } else {
#pragma unroll 4
                for (uint32_t entry = 0; entry < count; ++entry) {
                    float values[V];
                    load<S, V>(values, state + static_cast<uint64_t>(columns[warp][entry]) * args.cols);
                    add(sum, values, 1.0f);
                }
            }
        }
        if (!active) {
            continue;
        }
        if (PASS == Pass::Partial) {
            store<float, V>(args.partial + item * args.cols + col, sum);
        } else {
            finish_row<PASS, S, V>(d_theta, sum, args, item, col);
        }
    }
    if (PASS == Pass::Backward) {
        store<float, V>(&block_sums[warp][lane * V], d_theta);
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < LANES * V; at += HARMONIA_ROW_THREADS) {
            float sum = 0.0f;
            for (int w = 0; w < ROW_WARPS; ++w) {
                sum += block_sums[w][at];
            }
            const uint32_t column = blockIdx.x * LANES * V + at;
            if (column < args.cols) {
                args.partial[static_cast<uint64_t>(blockIdx.y) * args.cols + column] = sum;
            }
        }
    }
}

// Sum of d_theta over the groups of a block, for the kernels where a group of lanes owns a row.
__device__ __forceinline__ void write_group_sums(const Propagate& args, float d_theta) {
    __shared__ float block_sums[HARMONIA_ROW_THREADS];
    block_sums[threadIdx.x] = d_theta;
    __syncthreads();
    if (threadIdx.x < args.cols) {
        float sum = 0.0f;
        for (uint32_t at = threadIdx.x; at < HARMONIA_ROW_THREADS; at += args.group) {
            sum += block_sums[at];
        }
        args.partial[static_cast<uint64_t>(blockIdx.y) * args.cols + threadIdx.x] = sum;
    }
}

// 4 < d < 32: `group` lanes per row (8, 16 or 32, at least d). Block 256; grid: 1, blocks of items.
template <Pass PASS, typename S>
__device__ void propagate_medium(const Propagate& args) {
    const uint32_t col = threadIdx.x % args.group;
    const uint32_t groups = HARMONIA_ROW_THREADS / args.group;
    const uint64_t first = blockIdx.y * args.block_items;
    const uint64_t last = smaller(first + args.block_items, args.items);
    const S* state = static_cast<const S*>(args.state) + col;
    float d_theta[1] = {};
    if (col < args.cols) {
        for (uint64_t item = first + threadIdx.x / args.group; item < last; item += groups) {
            if (PASS == Pass::Forward && !contains(args.rows, item)) {
                continue;
            }
            const uint64_t begin = args.begin[item];
            const uint64_t end = args.end[item];
            if (too_long<PASS>(begin, end)) {
                continue;
            }
            float sum[1] = {};
            if (args.weights || args.sources) {
#pragma unroll 4
                for (uint64_t entry = begin; entry < end; ++entry) {
                    const uint64_t column = __ldg(args.col_idx + entry);
                    if (contains(args.sources, column)) {
                        const float weight = args.weights ? __ldg(args.weights + entry) : 1.0f;
                        sum[0] = fmaf(weight, to_float(state[column * args.cols]), sum[0]);
                    }
                }
            } else {
#pragma unroll 4
                for (uint64_t entry = begin; entry < end; ++entry) {
                    sum[0] += to_float(state[static_cast<uint64_t>(__ldg(args.col_idx + entry)) * args.cols]);
                }
            }
            if (PASS == Pass::Partial) {
                args.partial[item * args.cols + col] = sum[0];
            } else {
                finish_row<PASS, S, 1>(d_theta, sum, args, item, col);
            }
        }
    }
    if (PASS == Pass::Backward) {
        write_group_sums(args, d_theta[0]);
    }
}

// d <= 4: eight lanes per row, over its neighbours. `group` is 8. Block 256; grid: 1, blocks of items.
template <Pass PASS, typename S>
__device__ void propagate_narrow(const Propagate& args) {
    constexpr uint32_t GROUP = 8;
    constexpr uint32_t GROUPS = HARMONIA_ROW_THREADS / GROUP;
    constexpr uint32_t MOST = 4;
    const uint32_t lane = threadIdx.x % GROUP;
    const uint64_t first = blockIdx.y * args.block_items;
    const uint64_t last = smaller(first + args.block_items, args.items);
    const S* state = static_cast<const S*>(args.state);
    float d_theta[1] = {};
    // The bound is the same for all groups of the block: every lane takes part in every shuffle.
    for (uint64_t base = first; base < last; base += GROUPS) {
        const uint64_t item = base + threadIdx.x / GROUP;
        uint64_t begin = 0;
        uint64_t end = 0;
        const bool computed = item < last && (PASS != Pass::Forward || contains(args.rows, item));
        if (computed) {
            begin = args.begin[item];
            end = args.end[item];
        }
        const bool skipped = !computed || too_long<PASS>(begin, end);
        float sums[MOST] = {};
        if (!skipped) {
            for (uint64_t entry = begin + lane; entry < end; entry += GROUP) {
                const uint64_t column = __ldg(args.col_idx + entry);
                if (!contains(args.sources, column)) {
                    continue;
                }
                const S* from = state + column * args.cols;
                const float weight = args.weights ? __ldg(args.weights + entry) : 1.0f;
                if (args.cols == MOST) {
                    float values[MOST];
                    load<S, MOST>(values, from);
                    add(sums, values, weight);
                } else {
#pragma unroll
                    for (uint32_t c = 0; c < MOST; ++c) {
                        if (c < args.cols) {
                            sums[c] = fmaf(weight, to_float(from[c]), sums[c]);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (uint32_t c = 0; c < MOST; ++c) {
#pragma unroll
            for (int offset = GROUP / 2; offset > 0; offset /= 2) {
                sums[c] += __shfl_xor_sync(FULL_WARP, sums[c], offset);
            }
        }
        if (skipped || lane >= args.cols) {
            continue;
        }
        float sum[1] = {sums[0]};
#pragma unroll
        for (uint32_t c = 1; c < MOST; ++c) {
            sum[0] = lane == c ? sums[c] : sum[0];
        }
        if (PASS == Pass::Partial) {
            args.partial[item * args.cols + lane] = sum[0];
        } else {
            finish_row<PASS, S, 1>(d_theta, sum, args, item, lane);
        }
    }
    if (PASS == Pass::Backward) {
        write_group_sums(args, d_theta[0]);
    }
}

// Long rows from the sums of their segments: a thread a (row, column).
template <Pass PASS, typename S>
__device__ void propagate_long(const PropagateLong& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= static_cast<uint64_t>(args.long_row_count) * args.cols) {
        return;
    }
    const uint64_t row = at / args.cols;
    const uint32_t col = static_cast<uint32_t>(at % args.cols);
    float sum[1] = {};
    float d_theta[1] = {};
    for (uint32_t segment = args.first_segment[row]; segment < args.first_segment[row + 1]; ++segment) {
        sum[0] += args.segment_sums[static_cast<uint64_t>(segment) * args.cols + col];
    }
    finish_row<PASS, S, 1>(d_theta, sum, args, args.long_rows[row], col);
    if (PASS == Pass::Backward) {
        args.partial[at] = d_theta[0];
    }
}

// Hop 0. Block 32 x 8; grid: tiles of 32 columns, blocks of rows.
template <Pass PASS, typename S>
__device__ void propagate_start(const PropagateStart& args) {
    __shared__ float block_sums[ROW_WARPS][LANES];
    const uint32_t col = blockIdx.x * LANES + threadIdx.x;
    const uint64_t first = blockIdx.y * args.block_rows;
    const uint64_t last = smaller(first + args.block_rows, args.rows);
    float d_theta = 0.0f;
    if (col < args.cols) {
        const float theta = args.hop_weights[col];
        S* state = static_cast<S*>(args.state);
        for (uint64_t row = first + threadIdx.y; row < last; row += ROW_WARPS) {
            const uint64_t at = row * args.cols + col;
            const float response = args.responses[at];
            if (PASS == Pass::Forward) {
                args.accumulated[at] = theta * response;
                if (state) {
                    state[at] = from_float<S>(response * stored_scale<S>(args.state_scale));
                }
            } else {
                const float y = args.accumulated[at];
                d_theta = fmaf(response, y, d_theta);
                args.accumulated[at] = theta * y;
                if (state) {
                    state[at] = from_float<S>(y * stored_scale<S>(args.state_scale) * __ldg(args.inverse_degree + row));
                }
            }
        }
    }
    if (PASS == Pass::Backward) {
        block_sums[threadIdx.y][threadIdx.x] = d_theta;
        __syncthreads();
        if (threadIdx.y == 0 && col < args.cols) {
            for (int w = 1; w < ROW_WARPS; ++w) {
                d_theta += block_sums[w][threadIdx.x];
            }
            args.partial[static_cast<uint64_t>(blockIdx.y) * args.cols + col] = d_theta;
        }
    }
}

// propagate_{forward,backward,partial}_{wide4,wide,medium,narrow}_{f32,f16,bf16} and the start and end of a pass.
#define PROPAGATE_ROWS(pass, Pass_, type, S)                                                                           \
    KERNEL(propagate_##pass##_wide4_##type, Propagate) { propagate_wide<Pass_, S, 4>(args); }                          \
    KERNEL(propagate_##pass##_wide_##type, Propagate) { propagate_wide<Pass_, S, 1>(args); }                           \
    KERNEL(propagate_##pass##_medium_##type, Propagate) { propagate_medium<Pass_, S>(args); }                          \
    KERNEL(propagate_##pass##_narrow_##type, Propagate) { propagate_narrow<Pass_, S>(args); }

#define PROPAGATE_ENDS(pass, Pass_, type, S)                                                                           \
    KERNEL(propagate_start_##pass##_##type, PropagateStart) { propagate_start<Pass_, S>(args); }                       \
    KERNEL(propagate_long_##pass##_##type, PropagateLong) { propagate_long<Pass_, S>(args); }

#define PROPAGATE(type, S)                                                                                             \
    PROPAGATE_ROWS(forward, Pass::Forward, type, S)                                                                    \
    PROPAGATE_ROWS(backward, Pass::Backward, type, S)                                                                  \
    PROPAGATE_ROWS(partial, Pass::Partial, type, S)                                                                    \
    PROPAGATE_ENDS(forward, Pass::Forward, type, S)                                                                    \
    PROPAGATE_ENDS(backward, Pass::Backward, type, S)

PROPAGATE(f32, float)
PROPAGATE(f16, Half)
PROPAGATE(bf16, BFloat)
