// Class space: from the states of all hops to logits, and back.
//
// Forward   Horner: A_{T-1} = G_{T-1}, A_t = G_t + D^-1 A A_{t+1}, logits = beta + A_0; the last step writes the logits
// Backward  Y_0 = dlogits, Y_{t+1} = A^T D^-1 Y_t. Kept is Z_t = D^-1 Y_t, because Z_{t+1} = D^-1 A^T Z_t is a step like
//           those of the forward pass: one kernel serves both. Stored Z_t carry the factor `scale`.
// Graphs    a graph task has no walk but weights: logits = beta + sum_j sum_t v_t[j] G_t[j], Y_t[j] = v_t[j] dlogits of its
//           graph
// Shapes    states of all hops side by side, n x columns; a step reads `width` columns of them and writes others; logits
//           rows x L; A as CSR with 64-bit offsets and 32-bit columns, values optional
// Threads   a step: `group` lanes per row over columns, four of them each where the width is a multiple of four; a row
//           with fewer than eight such lanes has several of them, each taking every so many of its entries.
//           Rows with more than HARMONIA_LONG_ROW entries are left out, summed segment by segment by the same kernel
//           (`sums`) and finished by `walk_long_*`. Logits of graphs: a warp each. The rest: one thread per element.
// Scope     of a few scored rows, a step forward computes the rows that count for them (`rows`), a step backward reads the
//           states that can be other than zero (`sources`): a zero more or less changes no bit of a sum.
// Bytes     a step: nnz x width elements gathered, then n x width written once (forward: also read once); col_idx and
//           offsets once for every 32 lanes of columns.
// Deterministic: the lanes of a row take its entries in order, and are added up in a fixed order.

#include "math.cuh"
#include "state.cuh"
#include "warp.cuh"

// What becomes of the gathered sum of row i, `V` columns from `col` on.
template <typename S, int V>
__device__ __forceinline__ void finish_step(const WalkRows& args, const float (&sum)[V], uint64_t row, uint32_t col) {
    const float inverse_degree = __ldg(args.inverse_degree + row);
    const uint64_t at = row * args.columns + col;
    float value[V] = {};
    if (args.added) {
        load<S, V>(value, static_cast<const S*>(args.added) + at);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
        value[v] = fmaf(sum[v], inverse_degree, value[v]);
    }
    if (!args.logits) {
        store<S, V>(static_cast<S*>(args.next) + at, value);
        return;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (col + v < args.outputs) {
            args.logits[row * args.outputs + col + v] = args.bias[col + v] + value[v];
        }
    }
}

// Entries whose states a lane gathers at once.
constexpr int GATHERED = 4;

// Adds the states of `COUNT` entries, `entry_lanes` apart, in order: all columns first, then all states, then the sums.
template <typename S, int V, bool SOME, bool WEIGHTED, int COUNT>
__device__ __forceinline__ void gather_entries(float (&sum)[V], const WalkRows& args, const S* state, uint64_t entry) {
    uint32_t column[COUNT];
    float weight[COUNT];
    float values[COUNT][V] = {};
    bool kept[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        column[i] = __ldg(args.col_idx + entry + static_cast<uint64_t>(i) * args.entry_lanes);
        weight[i] = WEIGHTED ? __ldg(args.weights + entry + static_cast<uint64_t>(i) * args.entry_lanes) : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        kept[i] = !SOME || contains(args.sources, column[i]);
        if (kept[i]) {
            load<S, V>(values[i], state + static_cast<uint64_t>(column[i]) * args.columns);
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum[v] = kept[i] ? fmaf(weight[i], values[i][v], sum[v]) : sum[v];
        }
    }
}

// Sums every `entry_lanes`-th entry from `begin` on; of those in `sources` only, where SOME. Nothing is asked between the loads
// of four.
template <typename S, int V, bool SOME, bool WEIGHTED>
__device__ __forceinline__ void gather(
    float (&sum)[V], const WalkRows& args, const S* state, uint64_t begin, uint64_t end) {
    const uint64_t lanes = args.entry_lanes;
    uint64_t entry = begin;
    for (; entry + (GATHERED - 1) * lanes < end; entry += GATHERED * lanes) {
        gather_entries<S, V, SOME, WEIGHTED, GATHERED>(sum, args, state, entry);
    }
    for (; entry < end; entry += lanes) {
        gather_entries<S, V, SOME, WEIGHTED, 1>(sum, args, state, entry);
    }
}

// Block 256; grid: tiles of `group` V columns, blocks of items.
template <typename S, int V>
__device__ __forceinline__ void walk_rows(const WalkRows& args) {
    const uint32_t team = args.group * args.entry_lanes;
    const uint32_t teams = HARMONIA_ROW_THREADS / team;
    const uint32_t first_entry = threadIdx.x % team / args.group;
    const uint32_t col = (blockIdx.x * args.group + threadIdx.x % args.group) * V;
    const bool active = col < args.width;
    const S* state = static_cast<const S*>(args.state) + col;
    const uint64_t first = blockIdx.y * args.block_items;
    const uint64_t last = smaller(first + args.block_items, args.items);
    // The bound is the same for all teams of the block: every lane takes part in every shuffle.
    for (uint64_t base = first; base < last; base += teams) {
        const uint64_t item = base + threadIdx.x / team;
        uint64_t begin = 0;
        uint64_t end = 0;
        const bool computed = item < last && contains(args.rows, item);
        if (computed && args.state) {
            begin = args.begin[item];
            end = args.end[item];
        }
        const bool skipped = !active || !computed || (!args.sums && end - begin > HARMONIA_LONG_ROW);
        float sum[V] = {};
        if (!skipped && args.sources && args.weights) {
            gather<S, V, true, true>(sum, args, state, begin + first_entry, end);
        } else if (!skipped && args.sources) {
            gather<S, V, true, false>(sum, args, state, begin + first_entry, end);
        } else if (!skipped && args.weights) {
            gather<S, V, false, true>(sum, args, state, begin + first_entry, end);
        } else if (!skipped) {
            gather<S, V, false, false>(sum, args, state, begin + first_entry, end);
        }
        for (uint32_t offset = args.group; offset < team; offset *= 2) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum[v] += __shfl_xor_sync(FULL_WARP, sum[v], offset);
            }
        }
        if (skipped || first_entry != 0) {
            continue;
        }
        if (args.sums) {
            store<float, V>(args.sums + item * args.width + col, sum);
        } else {
            finish_step<S, V>(args, sum, item, col);
        }
    }
}

// Long rows from the sums of their segments: a thread a (row, column).
template <typename S>
__device__ __forceinline__ void walk_long(const WalkLong& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint32_t width = args.step.width;
    if (at >= static_cast<uint64_t>(args.long_row_count) * width) {
        return;
    }
    const uint64_t row = at / width;
    const uint32_t col = static_cast<uint32_t>(at % width);
    float sum[1] = {};
    for (uint32_t segment = args.first_segment[row]; segment < args.first_segment[row + 1]; ++segment) {
        sum[0] += args.segment_sums[static_cast<uint64_t>(segment) * width + col];
    }
    finish_step<S, 1>(args.step, sum, args.long_rows[row], col);
}

// Z_0. One thread per element of hop 0.
template <typename S>
__device__ __forceinline__ void walk_start(const WalkStart& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= args.rows * args.width) {
        return;
    }
    const uint64_t row = at / args.width;
    const uint32_t col = static_cast<uint32_t>(at % args.width);
    const float d_logit = col < args.outputs ? args.d_logits[row * args.outputs + col] : 0.0f;
    const float value = d_logit * stored_scale<S>(args.scale) * __ldg(args.inverse_degree + row);
    static_cast<S*>(args.state)[row * args.columns + col] = from_float<S>(value);
}

// Logits of graphs: a warp a (graph, output), lanes over nodes. Block 256.
template <typename S>
__device__ __forceinline__ void walk_weighted(const WalkWeighted& args) {
    const uint64_t at = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / LANES;
    if (at >= static_cast<uint64_t>(args.graphs) * args.outputs) {
        return; // the whole warp
    }
    const uint64_t graph = at / args.outputs;
    const uint64_t output = at % args.outputs;
    float sum = 0.0f;
    for (uint64_t j = args.graph_ptr[graph] + threadIdx.x % LANES; j < args.graph_ptr[graph + 1]; j += LANES) {
        const S* state = static_cast<const S*>(args.states) + j * args.columns + output;
        for (uint32_t t = 0; t < args.hops; ++t) {
            sum = fmaf(__ldg(args.node_weights + j * args.hops + t), to_float(state[t * args.width]), sum);
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % LANES == 0) {
        args.logits[at] = args.bias[output] + sum;
    }
}

// Y_t of all hops of a graph task. One thread per element.
template <typename S>
__device__ __forceinline__ void walk_weighted_start(const WalkStart& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= args.rows * args.columns) {
        return;
    }
    const uint64_t j = at / args.columns;
    const uint64_t t = at % args.columns / args.width;
    const uint32_t col = static_cast<uint32_t>(at % args.width);
    float value = 0.0f;
    if (col < args.outputs) {
        const float d_logit = args.d_logits[static_cast<uint64_t>(args.graph_of[j]) * args.outputs + col];
        value = d_logit * stored_scale<S>(args.scale) * args.node_weights[j * args.hops + t];
    }
    static_cast<S*>(args.state)[at] = from_float<S>(value);
}

#define WALK(type, S)                                                                                                  \
    KERNEL(walk_rows4_##type, WalkRows) { walk_rows<S, 4>(args); }                                                     \
    KERNEL(walk_rows_##type, WalkRows) { walk_rows<S, 1>(args); }                                                      \
    KERNEL(walk_long_##type, WalkLong) { walk_long<S>(args); }                                                         \
    KERNEL(walk_start_##type, WalkStart) { walk_start<S>(args); }                                                      \
    KERNEL(walk_weighted_##type, WalkWeighted) { walk_weighted<S>(args); }                                             \
    KERNEL(walk_weighted_start_##type, WalkStart) { walk_weighted_start<S>(args); }

WALK(f32, float)
WALK(f16, Half)
WALK(bf16, BFloat)
