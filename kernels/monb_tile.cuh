// MoNB for experts 1 -> H1 -> H2 whose sizes are known to the compiler: weights in shared memory, activations in
// registers.
//
// A block stages a tile of X (and dF), 8 features x 128 nodes, transposed in shared memory, so that global rows are
// read and written in full sectors. A team of threads (a warp for small experts, the block for large ones) takes one
// (feature, slot) after the other: it loads that slot's expert, and its lanes are nodes: every weight is a broadcast.
// Eight units of the second layer make a slice; a thread holds one slice of one node (forward: of several nodes).
#pragma once

#include "math.cuh"
#include "random.cuh"
#include "warp.cuh"

constexpr int TILE_FEATURES = HARMONIA_MONB_FEATURES;
constexpr int TILE_ROWS = HARMONIA_MONB_ROWS;
// Stride of a feature in a tile: a multiple of four apart in banks, so that eight features x four rows never collide.
constexpr int TILE_STRIDE = TILE_ROWS + 4;
constexpr int SLICE = 8;

template <int H1_, int H2_, int THREADS_, int TEAM_>
struct ExpertShape {
    static constexpr int H1 = H1_;
    static constexpr int H2 = H2_;
    static constexpr int THREADS = THREADS_;         // of a block
    static constexpr int TEAM = TEAM_;               // threads of a team
    static constexpr int TEAMS = THREADS / TEAM;
    static constexpr int SLICES = H2 / SLICE;
    static constexpr int POINTS = TEAM / SLICES;     // nodes a team evaluates at a time
    static constexpr int UNITS = H1 / SLICES;        // units of the first layer a thread differentiates
    static constexpr int HIDDEN = 2 * H1 + H1 * H2 + H2;
    static constexpr int SLICE_WARPS = POINTS / LANES;
    static constexpr int QUADS = H1 * H2 / 16;       // 4 x 4 pieces of the second layer's weight
    static constexpr int SUBSETS = TEAM / QUADS;     // threads that share a piece, each with its own nodes
    static_assert(H2 % SLICE == 0 && POINTS % LANES == 0 && TILE_ROWS % POINTS == 0, "whole slices and warps");
    static_assert(UNITS == 16, "one shuffle network for all shapes");
    static_assert(TEAM % QUADS == 0 && POINTS % SUBSETS == 0, "every thread has a piece");
};

using SmallExpert = ExpertShape<16, 8, 128, 32>;
using LargeExpert = ExpertShape<64, 32, 256, 256>;

// One expert as a team sees it.
template <typename E>
struct ExpertWeights {
    float2 first[E::H1];            // weight and bias of each unit
    float4 second[E::H1][E::H2 / 4]; // W2^T: by unit below, so that neighbouring units above share a load
    float bias[E::H2];
    float head[E::H2];              // effective gate * v
};

template <typename E>
__device__ __forceinline__ void team_sync() {
    if (E::TEAM == LANES) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// Loads the hidden layers of `expert` (w1, b1, w2 row-major, b2) and its head, scaled. The caller synchronises.
template <typename E>
__device__ __forceinline__ void load_expert(
    ExpertWeights<E>& to, const float* expert, const float* head, float gate, int thread) {
    for (int u = thread; u < E::H1; u += E::TEAM) {
        to.first[u] = make_float2(__ldg(expert + u), __ldg(expert + E::H1 + u));
    }
    const float* second = expert + 2 * E::H1;
    constexpr int QUADS = E::H2 / 4;
    // Neighbours write neighbouring quads: no bank of shared memory is met twice.
    for (int at = thread; at < E::H1 * QUADS; at += E::TEAM) {
        const float* from = second + (at % QUADS) * 4 * E::H1 + at / QUADS;
        to.second[at / QUADS][at % QUADS] =
            make_float4(__ldg(from), __ldg(from + E::H1), __ldg(from + 2 * E::H1), __ldg(from + 3 * E::H1));
    }
    for (int v = thread; v < E::H2; v += E::TEAM) {
        to.bias[v] = __ldg(second + E::H1 * E::H2 + v);
        to.head[v] = gate * __ldg(head + v);
    }
}

// z[r][j] = pre-activation of unit slice * 8 + j of the second layer at x[r].
template <typename E, int R>
__device__ __forceinline__ void second_layer(
    float (&z)[R][SLICE], const float (&x)[R], const ExpertWeights<E>& weights, int slice) {
#pragma unroll
    for (int j = 0; j < SLICE; ++j) {
        const float bias = weights.bias[slice * SLICE + j];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            z[r][j] = bias;
        }
    }
#pragma unroll 2
    for (int u = 0; u < E::H1; ++u) {
        const float2 first = weights.first[u];
        const float4 low = weights.second[u][slice * 2];
        const float4 high = weights.second[u][slice * 2 + 1];
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float h = relu(fmaf(first.x, x[r], first.y));
            z[r][0] = fmaf(low.x, h, z[r][0]);
            z[r][1] = fmaf(low.y, h, z[r][1]);
            z[r][2] = fmaf(low.z, h, z[r][2]);
            z[r][3] = fmaf(low.w, h, z[r][3]);
            z[r][4] = fmaf(high.x, h, z[r][4]);
            z[r][5] = fmaf(high.y, h, z[r][5]);
            z[r][6] = fmaf(high.z, h, z[r][6]);
            z[r][7] = fmaf(high.w, h, z[r][7]);
        }
    }
}

// tile[f][r] = masked X (or dF) of the nodes and features of the tile; 0 outside the matrix.
template <int THREADS>
__device__ __forceinline__ void load_tile(
    float (&tile)[TILE_FEATURES][TILE_STRIDE], const float* matrix, const Dropout* dropout, uint64_t first_row,
    uint64_t rows, uint32_t first_feature, uint32_t features) {
    for (int at = threadIdx.x; at < TILE_FEATURES * TILE_ROWS; at += THREADS) {
        const int f = at % TILE_FEATURES;
        const int r = at / TILE_FEATURES;
        float value = 0.0f;
        if (first_row + r < rows && first_feature + f < features) {
            const uint64_t index = (first_row + r) * features + first_feature + f;
            value = matrix[index];
            if (dropout) {
                value = masked_input(*dropout, value, index);
            }
        }
        tile[f][r] = value;
    }
}

// Grid: tiles of features, tiles of nodes (strided).
template <typename E>
__device__ void monb_forward_tile(const MonbForward& args) {
    constexpr int R = TILE_ROWS / E::POINTS; // nodes of a thread
    __shared__ float tile[TILE_FEATURES][TILE_STRIDE];
    __shared__ ExpertWeights<E> experts[E::TEAMS];
    __shared__ float slices[E::SLICES > 1 ? E::SLICES : 1][TILE_ROWS];
    const int team = threadIdx.x / E::TEAM;
    const int thread = threadIdx.x % E::TEAM;
    const int point = thread % E::POINTS;
    const int slice = thread / E::POINTS;
    const uint32_t first_feature = blockIdx.x * TILE_FEATURES;
    const uint32_t d = args.feature_count;
    ExpertWeights<E>& weights = experts[team];
    for (uint64_t first_row = static_cast<uint64_t>(blockIdx.y) * TILE_ROWS; first_row < args.nodes;
         first_row += static_cast<uint64_t>(gridDim.y) * TILE_ROWS) {
        __syncthreads();
        load_tile<E::THREADS>(tile, args.features, &args.dropout, first_row, args.nodes, first_feature, d);
        __syncthreads();
        for (int f = team; f < TILE_FEATURES && first_feature + f < d; f += E::TEAMS) {
            const uint32_t k = first_feature + f;
            const float factor = response_factor(args.dropout, k);
            float x[R];
            float sum[R];
#pragma unroll
            for (int r = 0; r < R; ++r) {
                x[r] = tile[f][r * E::POINTS + point];
                sum[r] = 0.0f;
            }
            for (uint32_t slot = 0; slot < args.active; ++slot) {
                const uint64_t pair = static_cast<uint64_t>(k) * args.active + slot;
                const float* head = args.heads + pair * (E::H2 + 1);
                const float gate = args.gates[pair] * factor;
                team_sync<E>();
                load_expert(weights, args.parameters + args.experts[pair] * args.expert_size, head, gate, thread);
                team_sync<E>();
                float z[R][SLICE];
                second_layer<E, R>(z, x, weights, slice);
                const float constant = slice == 0 ? gate * __ldg(head + E::H2) : 0.0f;
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    sum[r] += constant;
                }
#pragma unroll
                for (int j = 0; j < SLICE; ++j) {
                    const float v = weights.head[slice * SLICE + j];
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        sum[r] = fmaf(v, relu(z[r][j]), sum[r]);
                    }
                }
            }
            if (E::SLICES == 1) {
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    tile[f][r * E::POINTS + point] = sum[r];
                }
            } else {
                __syncthreads();
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    slices[slice][r * E::POINTS + point] = sum[r];
                }
                __syncthreads();
                for (int row = thread; row < TILE_ROWS; row += E::TEAM) {
                    float total = slices[0][row];
#pragma unroll
                    for (int s = 1; s < E::SLICES; ++s) {
                        total += slices[s][row];
                    }
                    tile[f][row] = total;
                }
            }
        }
        __syncthreads();
        for (int at = threadIdx.x; at < TILE_FEATURES * TILE_ROWS; at += E::THREADS) {
            const int f = at % TILE_FEATURES;
            const int r = at / TILE_FEATURES;
            if (first_row + r < args.nodes && first_feature + f < d) {
                args.responses[(first_row + r) * d + first_feature + f] = tile[f][r];
            }
        }
    }
}

// Working memory of a team in the backward pass.
template <typename E>
struct TeamMemory {
    static constexpr int DELTA_STRIDE = E::H2 + 4; // floats; a multiple of four for float4, + 4 to spread banks
    static constexpr int HIDDEN_STRIDE = E::H1 + 4;
    static constexpr int SUMS = 49; // 16 dw1, 16 db1, 8 S, 8 db2, G
    ExpertWeights<E> weights;
    float4 delta[E::POINTS][DELTA_STRIDE / 4];   // gradient of the second layer's pre-activations
    float4 hidden[E::POINTS][HIDDEN_STRIDE / 4]; // first layer's activations; later the pieces of dw2
    float sums[E::TEAM / LANES][SUMS];           // of each warp
    static_assert((E::SUBSETS - 1) * E::QUADS * 4 <= E::POINTS * HIDDEN_STRIDE / 4, "pieces of dw2 fit over `hidden`");
};

// Sums a thread carries over the nodes of a tile.
struct ThreadSums {
    float first[32];  // dw1, then db1, of the thread's 16 units
    float second[16]; // S, then db2, of the thread's slice
    float gradient;   // G
    float piece[4][4]; // of dw2: [unit above][unit below]
};

// One set of nodes: forward again, then every gradient. x and g are zero outside the matrix.
template <typename E>
__device__ __forceinline__ void differentiate(ThreadSums& sums, TeamMemory<E>& memory, float x, float g, int thread) {
    const int point = thread % E::POINTS;
    const int slice = thread / E::POINTS;
    float z[1][SLICE];
    const float at[1] = {x};
    second_layer<E, 1>(z, at, memory.weights, slice);
    float delta[SLICE];
#pragma unroll
    for (int j = 0; j < SLICE; ++j) {
        const float h = relu(z[0][j]);
        delta[j] = h > 0.0f ? memory.weights.head[slice * SLICE + j] * g : 0.0f;
        sums.second[j] = fmaf(g, h, sums.second[j]);
        sums.second[SLICE + j] += delta[j];
    }
    sums.gradient += slice == 0 ? g : 0.0f;
    memory.delta[point][slice * 2] = make_float4(delta[0], delta[1], delta[2], delta[3]);
    memory.delta[point][slice * 2 + 1] = make_float4(delta[4], delta[5], delta[6], delta[7]);
    team_sync<E>();

    // dh1 = W2^T delta for the thread's units of the first layer, four at a time: delta is read again for each
    // four, because holding all of it would cost too many registers.
#pragma unroll
    for (int quad = 0; quad < E::UNITS / 4; ++quad) {
        const int first_unit = slice * E::UNITS + quad * 4;
        float d[4] = {};
#pragma unroll
        for (int q = 0; q < E::H2 / 4; ++q) {
            const float4 above = memory.delta[point][q];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 w = memory.weights.second[first_unit + i][q];
                d[i] = fmaf(w.x, above.x, d[i]);
                d[i] = fmaf(w.y, above.y, d[i]);
                d[i] = fmaf(w.z, above.z, d[i]);
                d[i] = fmaf(w.w, above.w, d[i]);
            }
        }
        float h[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 first = memory.weights.first[first_unit + i];
            h[i] = relu(fmaf(first.x, x, first.y));
            d[i] = h[i] > 0.0f ? d[i] : 0.0f;
            sums.first[quad * 4 + i] = fmaf(d[i], x, sums.first[quad * 4 + i]);
            sums.first[16 + quad * 4 + i] += d[i];
        }
        memory.hidden[point][first_unit / 4] = make_float4(h[0], h[1], h[2], h[3]);
    }
    team_sync<E>();

    // dw2 = delta h1^T: the thread's 4 x 4 piece over its subset of the nodes.
    const int piece = thread % E::QUADS;
    const int below = piece % (E::H1 / 4);
    const int over = piece / (E::H1 / 4);
#pragma unroll 4
    for (int p = thread / E::QUADS; p < E::POINTS; p += E::SUBSETS) {
        const float4 d = memory.delta[p][over];
        const float4 h = memory.hidden[p][below];
        const float ds[4] = {d.x, d.y, d.z, d.w};
        const float hs[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums.piece[i][j] = fmaf(ds[i], hs[j], sums.piece[i][j]);
            }
        }
    }
    team_sync<E>(); // before the next nodes overwrite delta and hidden
}

// Adds a team's sums to its slice of expert_sums and to the sums of the (feature, slot).
template <typename E>
__device__ __forceinline__ void flush(
    float* d_expert, float* d_head, ThreadSums& sums, TeamMemory<E>& memory, int thread) {
    constexpr int SUMS = TeamMemory<E>::SUMS;
    // Pieces of dw2 first: the shuffles below need their registers.
    const int subset = thread / E::QUADS;
    const int piece = thread % E::QUADS;
    if (subset > 0) {
        float4* to = &memory.hidden[0][0] + ((subset - 1) * E::QUADS + piece) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            to[i] = make_float4(sums.piece[i][0], sums.piece[i][1], sums.piece[i][2], sums.piece[i][3]);
        }
    }
    team_sync<E>();
    if (subset == 0) {
        const int below = piece % (E::H1 / 4) * 4;
        const int over = piece / (E::H1 / 4) * 4;
        for (int s = 0; s < E::SUBSETS - 1; ++s) {
            const float4* from = &memory.hidden[0][0] + (s * E::QUADS + piece) * 4;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums.piece[i][0] += from[i].x;
                sums.piece[i][1] += from[i].y;
                sums.piece[i][2] += from[i].z;
                sums.piece[i][3] += from[i].w;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                d_expert[2 * E::H1 + (over + i) * E::H1 + below + j] += sums.piece[i][j];
            }
        }
    }
    const int lane = thread % LANES;
    const int warp = thread / LANES;
    memory.sums[warp][lane] = warp_scatter_sum(sums.first);
    const float second = warp_scatter_sum(sums.second);
    if (lane < 16) {
        memory.sums[warp][32 + lane] = second;
    }
    const float gradient = warp_sum(sums.gradient);
    if (lane == 0) {
        memory.sums[warp][48] = gradient;
    }
    team_sync<E>();
    for (int at = thread; at < E::SLICES * SUMS; at += E::TEAM) {
        const int slice = at / SUMS;
        const int which = at % SUMS;
        float sum = 0.0f;
        for (int w = 0; w < E::SLICE_WARPS; ++w) {
            sum += memory.sums[slice * E::SLICE_WARPS + w][which];
        }
        if (which < 16) {
            d_expert[slice * 16 + which] += sum;
        } else if (which < 32) {
            d_expert[E::H1 + slice * 16 + which - 16] += sum;
        } else if (which < 40) {
            d_head[slice * SLICE + which - 32] += sum;
        } else if (which < 48) {
            d_expert[2 * E::H1 + E::H1 * E::H2 + slice * SLICE + which - 40] += sum;
        } else if (slice == 0) {
            d_head[E::H2] += sum;
        }
    }
    team_sync<E>(); // before the next expert overwrites the memory
}

// Grid: tiles of features (strided), chunks of nodes. Both outputs are zero at the start.
template <typename E>
__device__ void monb_backward_tile(const MonbBackward& args) {
    __shared__ float inputs[TILE_FEATURES][TILE_STRIDE];
    __shared__ float gradients[TILE_FEATURES][TILE_STRIDE];
    __shared__ TeamMemory<E> teams[E::TEAMS];
    const int team = threadIdx.x / E::TEAM;
    const int thread = threadIdx.x % E::TEAM;
    const int point = thread % E::POINTS;
    const uint32_t d = args.feature_count;
    const uint64_t block = static_cast<uint64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    float* expert_sums = args.expert_sums + (block * E::TEAMS + team) * args.expert_count * args.hidden_size;
    float* head_sums = args.head_sums + static_cast<uint64_t>(blockIdx.y) * d * args.active * (E::H2 + 1);
    const uint64_t last_row = smaller<uint64_t>((blockIdx.y + 1) * args.chunk_rows, args.nodes);
    TeamMemory<E>& memory = teams[team];
    for (uint32_t first_feature = blockIdx.x * TILE_FEATURES; first_feature < d;
         first_feature += gridDim.x * TILE_FEATURES) {
        for (uint64_t first_row = blockIdx.y * args.chunk_rows; first_row < last_row; first_row += TILE_ROWS) {
            __syncthreads();
            load_tile<E::THREADS>(inputs, args.features, &args.dropout, first_row, last_row, first_feature, d);
            load_tile<E::THREADS>(gradients, args.d_responses, nullptr, first_row, last_row, first_feature, d);
            __syncthreads();
            for (int f = team; f < TILE_FEATURES && first_feature + f < d; f += E::TEAMS) {
                const uint32_t k = first_feature + f;
                const float factor = response_factor(args.dropout, k);
                for (uint32_t slot = 0; slot < args.active; ++slot) {
                    const uint64_t pair = static_cast<uint64_t>(k) * args.active + slot;
                    const uint32_t expert = args.experts[pair];
                    const float* head = args.heads + pair * (E::H2 + 1);
                    const float* parameters = args.parameters + expert * args.expert_size;
                    load_expert(memory.weights, parameters, head, args.gates[pair] * factor, thread);
                    team_sync<E>();
                    ThreadSums sums = {};
#pragma unroll 1
                    for (int tile = 0; tile < TILE_ROWS; tile += E::POINTS) {
                        differentiate(sums, memory, inputs[f][tile + point], gradients[f][tile + point], thread);
                    }
                    float* d_expert = expert_sums + expert * args.hidden_size;
                    flush(d_expert, head_sums + pair * (E::H2 + 1), sums, memory, thread);
                }
            }
        }
    }
}
