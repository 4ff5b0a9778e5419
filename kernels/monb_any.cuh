// MoNB for experts of any depth and width, and for dropout of hidden units: the plain form of monb_tile.cuh.
//
// A block takes one (feature, slot) after the other on 32 nodes at a time. Activations stand in shared memory, or in a
// piece of `workspace` where they do not fit, unit by unit with the nodes as lanes: [unit][32].
#pragma once

#include "monb_tile.cuh"
#include "sparse.cuh"

constexpr int ANY_THREADS = 128;

// The shape of an expert and where its activations stand.
struct Network {
    const uint32_t* widths; // 1, hidden widths
    uint32_t layers;        // hidden layers
    uint32_t units;         // of all hidden layers
};

__device__ __forceinline__ Network network(const uint32_t* widths, uint32_t layers) {
    Network net = {widths, layers, 0};
    for (uint32_t l = 1; l <= layers; ++l) {
        net.units += widths[l];
    }
    return net;
}

// What identifies the masks of a (feature, slot) at 32 nodes.
struct HiddenMasks {
    const Dropout* dropout; // null: none
    uint64_t first_row;
    uint32_t features;
    uint32_t feature;
    uint32_t active;
    uint32_t slot;

    // Factor of unit `unit` (counted over all hidden layers) at node `point`.
    __device__ float factor(int point, uint32_t unit, uint32_t units) const {
        const uint64_t element = (first_row + point) * features + feature;
        return keep(*dropout, (element * active + slot) * units + unit);
    }
};

__device__ __forceinline__ HiddenMasks hidden_masks(
    const Dropout& dropout, uint64_t first_row, uint32_t features, uint32_t feature, uint32_t active, uint32_t slot) {
    return {dropout.place == HARMONIA_DROP_HIDDEN ? &dropout : nullptr, first_row, features, feature, active, slot};
}

// Activations of all hidden layers, one after the other, each [unit][32], behind x in `activations[0..32)`.
__device__ void any_forward(float* activations, const float* expert, const Network& net, const HiddenMasks& masks) {
    const float* input = activations;
    float* output = activations + LANES;
    uint32_t first_unit = 0;
    for (uint32_t l = 0; l < net.layers; ++l) {
        const uint32_t inputs = net.widths[l];
        const uint32_t units = net.widths[l + 1];
        const float* bias = expert + static_cast<uint64_t>(units) * inputs;
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < units * LANES; at += ANY_THREADS) {
            const uint32_t u = at / LANES;
            const uint32_t point = at % LANES;
            const float* row = expert + static_cast<uint64_t>(u) * inputs;
            float sum = __ldg(bias + u);
            for (uint32_t v = 0; v < inputs; ++v) {
                sum = fmaf(__ldg(row + v), input[v * LANES + point], sum);
            }
            sum = relu(sum);
            if (masks.dropout) {
                sum *= masks.factor(point, first_unit + u, net.units);
            }
            output[at] = sum;
        }
        first_unit += units;
        expert = bias + units;
        input = output;
        output += units * LANES;
    }
    __syncthreads();
}

// Where x and the activations of a block stand: shared memory behind the tiles, or the block's piece of the workspace.
__device__ __forceinline__ float* any_workspace(float* workspace, uint64_t size, float* shared) {
    return workspace ? workspace + (static_cast<uint64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * size : shared;
}

// f_k at the 32 points that stand in activations[0..32): of lane l of the first warp, at point l.
__device__ float any_response(
    float* activations, const MonbForward& args, const Network& net, HiddenMasks masks, uint32_t k) {
    const uint32_t w = args.head_width;
    const float* last = activations + (args.layers ? (1 + net.units - w) * LANES : 0);
    const float factor = response_factor(args.dropout, k);
    float sum = 0.0f;
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        const uint64_t pair = static_cast<uint64_t>(k) * args.active + slot;
        masks.slot = slot;
        any_forward(activations, args.parameters + args.experts[pair] * args.expert_size, net, masks);
        if (threadIdx.x < LANES) {
            const float* head = args.heads + pair * (w + 1);
            float response = __ldg(head + w);
            for (uint32_t u = 0; u < w; ++u) {
                response = fmaf(__ldg(head + u), last[u * LANES + threadIdx.x], response);
            }
            sum = fmaf(args.gates[pair] * factor, response, sum);
        }
        __syncthreads();
    }
    return sum;
}

// Grid: tiles of features, tiles of nodes (strided).
KERNEL(monb_forward_any, MonbForward) {
    DYNAMIC_SHARED(float, shared);
    __shared__ float tile[TILE_FEATURES][TILE_STRIDE];
    const uint32_t first_feature = blockIdx.x * TILE_FEATURES;
    const uint32_t d = args.feature_count;
    const Network net = network(args.widths, args.layers);
    float* activations = any_workspace(args.workspace, args.workspace_size, shared);
    for (uint64_t first_row = static_cast<uint64_t>(blockIdx.y) * TILE_ROWS; first_row < args.nodes;
         first_row += static_cast<uint64_t>(gridDim.y) * TILE_ROWS) {
        __syncthreads();
        load_tile<ANY_THREADS>(tile, args.features, &args.dropout, first_row, args.nodes, first_feature, d);
        __syncthreads();
        for (int f = 0; f < TILE_FEATURES && first_feature + f < d; ++f) {
            const uint32_t k = first_feature + f;
            for (int row = 0; row < TILE_ROWS; row += LANES) {
                if (threadIdx.x < LANES) {
                    activations[threadIdx.x] = tile[f][row + threadIdx.x];
                }
                const HiddenMasks masks = hidden_masks(args.dropout, first_row + row, d, k, args.active, 0);
                const float sum = any_response(activations, args, net, masks, k);
                if (threadIdx.x < LANES) {
                    tile[f][row + threadIdx.x] = sum;
                }
                __syncthreads();
            }
        }
        for (int at = threadIdx.x; at < TILE_FEATURES * TILE_ROWS; at += ANY_THREADS) {
            const int f = at % TILE_FEATURES;
            const int r = at / TILE_FEATURES;
            if (first_row + r < args.nodes && first_feature + f < d) {
                args.responses[(first_row + r) * d + first_feature + f] = tile[f][r];
            }
        }
    }
}

// The points of a sum in an order of the thread's own: where threads read rows of 32, no two meet in a bank of shared memory.
__device__ __forceinline__ int own_point(int step) {
    return (step + static_cast<int>(threadIdx.x)) % LANES;
}

// Adds the gradients of one layer: rows of [delta (units x 32)] times rows of [input (inputs x 32)], and sums of delta.
__device__ __forceinline__ void any_layer_gradients(
    float* d_weight, float* d_bias, const float* delta, uint32_t units, const float* input, uint32_t inputs) {
    for (uint64_t at = threadIdx.x; at < static_cast<uint64_t>(units) * inputs; at += ANY_THREADS) {
        const float* d = delta + at / inputs * LANES;
        const float* h = input + at % inputs * LANES;
        float sum = 0.0f;
        for (int step = 0; step < LANES; ++step) {
            const int point = own_point(step);
            sum = fmaf(d[point], h[point], sum);
        }
        d_weight[at] += sum;
    }
    for (uint32_t u = threadIdx.x; u < units; u += ANY_THREADS) {
        float sum = 0.0f;
        for (int step = 0; step < LANES; ++step) {
            sum += delta[u * LANES + own_point(step)];
        }
        d_bias[u] += sum;
    }
}

// Where a block of a backward pass keeps x and all activations, then two pieces as large as the widest layer.
struct AnyWorkspace {
    float* activations;
    float* delta;
    float* next_delta;
};

__device__ __forceinline__ AnyWorkspace any_backward_workspace(
    const MonbBackward& args, const Network& net, float* shared) {
    float* activations = any_workspace(args.workspace, args.workspace_size, shared);
    float* delta = activations + (1 + net.units) * LANES;
    return {activations, delta, delta + (args.workspace_size - (1 + net.units) * LANES) / 2};
}

// Adds what the 32 points in activations[0..32) with gradients `g` contribute to the sums of (k, slot) and of its expert.
// `expert_sums` are those of the block, `head_sums` those of all pairs.
__device__ void any_differentiate(
    float* expert_sums, float* head_sums, AnyWorkspace work, const float* g, const MonbBackward& args,
    const Network& net, HiddenMasks masks, uint32_t k) {
    const uint32_t w = args.head_width;
    const uint64_t pair = static_cast<uint64_t>(k) * args.active + masks.slot;
    const uint32_t expert = args.experts[pair];
    const float* head = args.heads + pair * (w + 1);
    float* d_head = head_sums + pair * (w + 1);
    const float gate = args.gates[pair] * response_factor(args.dropout, k);
    const float kept = args.dropout.place == HARMONIA_DROP_HIDDEN ? args.dropout.scale : 1.0f;
    const float* last = work.activations + (args.layers ? (1 + net.units - w) * LANES : 0);
    any_forward(work.activations, args.parameters + expert * args.expert_size, net, masks);
    for (uint32_t u = threadIdx.x; u <= w; u += ANY_THREADS) {
        float sum = 0.0f;
        for (int step = 0; step < LANES; ++step) {
            const int point = own_point(step);
            sum = fmaf(g[point], u < w ? last[u * LANES + point] : 1.0f, sum);
        }
        d_head[u] += sum;
    }
    // From the last hidden layer down: delta is the gradient of its pre-activations.
    if (args.layers) {
        for (uint32_t at = threadIdx.x; at < w * LANES; at += ANY_THREADS) {
            const float d_last = gate * __ldg(head + at / LANES) * g[at % LANES] * kept;
            work.delta[at] = last[at] > 0.0f ? d_last : 0.0f;
        }
    }
    __syncthreads();
    uint64_t offset = args.hidden_size;
    const float* above = work.activations + (1 + net.units) * LANES;
    for (uint32_t l = args.layers; l-- > 0;) {
        const uint32_t units = net.widths[l + 1];
        const uint32_t below = net.widths[l];
        const float* output = above - units * LANES;
        const float* input = output - below * LANES;
        offset -= static_cast<uint64_t>(units) * (below + 1);
        float* d_weight = expert_sums + expert * args.hidden_size + offset;
        any_layer_gradients(
            d_weight, d_weight + static_cast<uint64_t>(units) * below, work.delta, units, input, below);
        if (l > 0) {
            const float* weight = args.parameters + expert * args.expert_size + offset;
            for (uint32_t at = threadIdx.x; at < below * LANES; at += ANY_THREADS) {
                const uint32_t v = at / LANES;
                float sum = 0.0f;
                for (uint32_t u = 0; u < units; ++u) {
                    const float* row_u = weight + static_cast<uint64_t>(u) * below;
                    sum = fmaf(__ldg(row_u + v), work.delta[u * LANES + at % LANES], sum);
                }
                work.next_delta[at] = input[at] > 0.0f ? sum * kept : 0.0f;
            }
        }
        __syncthreads();
        float* swapped = work.delta;
        work.delta = work.next_delta;
        work.next_delta = swapped;
        above = output;
    }
}

// Grid: tiles of features (strided), chunks of nodes. Both outputs are zero at the start.
KERNEL(monb_backward_any, MonbBackward) {
    DYNAMIC_SHARED(float, shared);
    __shared__ float inputs[TILE_FEATURES][TILE_STRIDE];
    __shared__ float gradients[TILE_FEATURES][TILE_STRIDE];
    const uint32_t d = args.feature_count;
    const Network net = network(args.widths, args.layers);
    const AnyWorkspace work = any_backward_workspace(args, net, shared);
    const uint64_t block = static_cast<uint64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    float* expert_sums = args.expert_sums + block * args.expert_count * args.hidden_size;
    float* head_sums = args.head_sums + static_cast<uint64_t>(blockIdx.y) * d * args.active * (args.head_width + 1);
    const uint64_t last_row = smaller<uint64_t>((blockIdx.y + 1) * args.chunk_rows, args.nodes);
    for (uint32_t first_feature = blockIdx.x * TILE_FEATURES; first_feature < d;
         first_feature += gridDim.x * TILE_FEATURES) {
        for (uint64_t first_row = blockIdx.y * args.chunk_rows; first_row < last_row; first_row += TILE_ROWS) {
            __syncthreads();
            load_tile<ANY_THREADS>(inputs, args.features, &args.dropout, first_row, last_row, first_feature, d);
            load_tile<ANY_THREADS>(gradients, args.d_responses, nullptr, first_row, last_row, first_feature, d);
            __syncthreads();
            for (int f = 0; f < TILE_FEATURES && first_feature + f < d; ++f) {
                const uint32_t k = first_feature + f;
                for (uint32_t slot = 0; slot < args.active; ++slot) {
                    for (int row = 0; row < TILE_ROWS; row += LANES) {
                        if (threadIdx.x < LANES) {
                            work.activations[threadIdx.x] = inputs[f][row + threadIdx.x];
                        }
                        const HiddenMasks masks = hidden_masks(args.dropout, first_row + row, d, k, args.active, slot);
                        any_differentiate(expert_sums, head_sums, work, gradients[f] + row, args, net, masks, k);
                    }
                }
            }
        }
    }
}

// Sparse X: a block per column (strided), first at zero, then 32 non-zeros at a time. Hidden units are not dropped.
KERNEL(monb_sparse_forward, MonbSparseForward) {
    DYNAMIC_SHARED(float, shared);
    const MonbForward& monb = args.monb;
    const Network net = network(monb.widths, monb.layers);
    float* activations = any_workspace(monb.workspace, monb.workspace_size, shared);
    for (uint32_t k = blockIdx.x; k < monb.feature_count; k += gridDim.x) {
        if (threadIdx.x < LANES) {
            activations[threadIdx.x] = 0.0f;
        }
        const float zero = any_response(activations, monb, net, HiddenMasks(), k);
        if (threadIdx.x == 0) {
            monb.responses[k] = zero;
        }
        const uint64_t end = args.x.column_ptr[k + 1];
        for (uint64_t base = args.x.column_ptr[k]; base < end; base += LANES) {
            const uint64_t place = base + threadIdx.x;
            const bool mine = threadIdx.x < LANES && place < end;
            if (threadIdx.x < LANES) {
                activations[threadIdx.x] = mine ? sparse_input(args.x, monb.dropout, place, k) : 0.0f;
            }
            const float response = any_response(activations, monb, net, HiddenMasks(), k);
            if (mine) {
                monb.responses[monb.feature_count + place] = response - zero;
            }
        }
    }
}

// The same backward: a block has its own sums of experts, a column its own sums of heads. Both are zero at the start.
KERNEL(monb_sparse_backward, MonbSparseBackward) {
    DYNAMIC_SHARED(float, shared);
    __shared__ float gradients[LANES];
    const MonbBackward& monb = args.monb;
    const Network net = network(monb.widths, monb.layers);
    const AnyWorkspace work = any_backward_workspace(monb, net, shared);
    float* expert_sums = monb.expert_sums + blockIdx.x * monb.expert_count * monb.hidden_size;
    const float* d_responses = monb.d_responses + monb.feature_count;
    for (uint32_t k = blockIdx.x; k < monb.feature_count; k += gridDim.x) {
        const uint64_t begin = args.x.column_ptr[k];
        const uint64_t end = args.x.column_ptr[k + 1];
        float taken = 0.0f;
        for (uint64_t place = begin + threadIdx.x; place < end; place += ANY_THREADS) {
            taken += d_responses[place];
        }
        taken = block_sum(taken);
        if (threadIdx.x < LANES) {
            // What the non-zeros do not take belongs to x = 0.
            gradients[threadIdx.x] = threadIdx.x == 0 ? monb.d_responses[k] - taken : 0.0f;
            work.activations[threadIdx.x] = 0.0f;
        }
        for (uint64_t base = begin;; base += LANES) {
            HiddenMasks masks = HiddenMasks();
            for (masks.slot = 0; masks.slot < monb.active; ++masks.slot) {
                any_differentiate(expert_sums, monb.head_sums, work, gradients, monb, net, masks, k);
            }
            if (base >= end) {
                break;
            }
            if (threadIdx.x < LANES) {
                const uint64_t place = base + threadIdx.x;
                gradients[threadIdx.x] = place < end ? d_responses[place] : 0.0f;
                work.activations[threadIdx.x] = place < end ? sparse_input(args.x, monb.dropout, place, k) : 0.0f;
            }
        }
    }
}
