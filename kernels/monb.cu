// Mixture of Neural Bases.
//
// F[i,k] = a_k . sum_s gate_s psi_s(x) with psi_s(x) = U_s h_s(x) + u_s is regrouped as
// F[i,k] = sum_s gate_s (v_s . h_s(x) + c_s), v_s = U_s^T a_k, c_s = u_s . a_k: `monb_fold` applies the linear output layer
// once per (feature, slot), so the cost of a node does not depend on B.
// Backward  S = sum_i g_i h(x_i) and G = sum_i g_i per (feature, slot) give dgate = v.S + c G, dU += gate a S^T,
//           du += gate a G, da += gate (U S + u G); the hidden layers by backpropagation, activations recomputed.
// Shapes    X, F, dF n x d; heads and sums d x m x (w + 1), w the last hidden width; experts' hidden layers in a row
// Threads   monb_forward/backward_16_8 and _64_32: monb_tile.cuh; _any: monb_any.cuh.
//           monb_fold: one per head entry. monb_finish_*: one per gate, one per coefficient, 32 x 8 per row of U, one per weight.
// Bytes     X read once and F written once per pass (backward: X and dF read once); weights from cache.
// Deterministic: every team has its own slice of expert_sums; reduce.cu adds the slices in order.

#include "monb_any.cuh"

KERNEL(monb_fold, MonbFold) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint32_t w = args.head_width;
    if (at >= static_cast<uint64_t>(args.features) * args.active * (w + 1)) {
        return;
    }
    const uint64_t pair = at / (w + 1);
    const uint32_t unit = static_cast<uint32_t>(at % (w + 1));
    const float* output = args.parameters + args.experts[pair] * args.expert_size + args.hidden_size;
    const float* bias = output + static_cast<uint64_t>(args.bases) * w;
    const float* a = args.coefficients + pair / args.active * args.bases;
    float sum = 0.0f;
    for (uint32_t b = 0; b < args.bases; ++b) {
        sum = fmaf(a[b], unit < w ? output[static_cast<uint64_t>(b) * w + unit] : bias[b], sum);
    }
    args.heads[at] = sum;
}

BOUNDED_KERNEL(monb_forward_16_8, MonbForward, SmallExpert::THREADS, 4) {
    monb_forward_tile<SmallExpert>(args);
}

BOUNDED_KERNEL(monb_forward_64_32, MonbForward, LargeExpert::THREADS, 2) {
    monb_forward_tile<LargeExpert>(args);
}

BOUNDED_KERNEL(monb_backward_16_8, MonbBackward, SmallExpert::THREADS, 3) {
    monb_backward_tile<SmallExpert>(args);
}

BOUNDED_KERNEL(monb_backward_64_32, MonbBackward, LargeExpert::THREADS, 1) {
    monb_backward_tile<LargeExpert>(args);
}

// One thread a (feature, slot): dgate.
KERNEL(monb_finish_gates, MonbFinish) {
    const uint64_t pair = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (pair >= static_cast<uint64_t>(args.features) * args.active) {
        return;
    }
    const uint64_t first = pair * (args.head_width + 1);
    float sum = 0.0f;
    for (uint32_t unit = 0; unit <= args.head_width; ++unit) {
        sum = fmaf(args.heads[first + unit], args.sums[first + unit], sum);
    }
    args.d_gates[pair] = sum * response_factor(args.dropout, static_cast<uint32_t>(pair / args.active));
}

// One thread per coefficient: da.
KERNEL(monb_finish_coefficients, MonbFinish) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t w = args.head_width;
    if (at >= static_cast<uint64_t>(args.features) * args.bases) {
        return;
    }
    const uint32_t k = static_cast<uint32_t>(at / args.bases);
    const uint64_t b = at % args.bases;
    const float factor = response_factor(args.dropout, k);
    float total = 0.0f;
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        const uint64_t pair = static_cast<uint64_t>(k) * args.active + slot;
        const float* output = args.parameters + args.experts[pair] * args.expert_size + args.hidden_size;
        const float* sums = args.sums + pair * (w + 1);
        float sum = output[args.bases * w + b] * sums[w];
        for (uint64_t unit = 0; unit < w; ++unit) {
            sum = fmaf(output[b * w + unit], sums[unit], sum);
        }
        total = fmaf(args.gates[pair] * factor, sum, total);
    }
    args.d_coefficients[at] += total;
}

// dU and du: a block per row (expert, b), 32 units x 8 slices of the (feature, slot) pairs. Grid: C x B.
KERNEL(monb_finish_outputs, MonbFinish) {
    __shared__ float slices[HARMONIA_SUM_SLICES][HARMONIA_SUM_COLUMNS];
    const uint32_t expert = blockIdx.x / args.bases;
    const uint64_t b = blockIdx.x % args.bases;
    const uint64_t w = args.head_width;
    const uint64_t pairs = static_cast<uint64_t>(args.features) * args.active;
    float* output = args.d_parameters + expert * args.expert_size + args.hidden_size;
    for (uint64_t first = 0; first <= w; first += HARMONIA_SUM_COLUMNS) {
        const uint64_t unit = first + threadIdx.x;
        float sum = 0.0f;
        for (uint64_t pair = threadIdx.y; pair < pairs; pair += HARMONIA_SUM_SLICES) {
            if (args.experts[pair] == expert && unit <= w) {
                const uint32_t k = static_cast<uint32_t>(pair / args.active);
                const float gate = args.gates[pair] * response_factor(args.dropout, k);
                const float a = args.coefficients[static_cast<uint64_t>(k) * args.bases + b];
                sum = fmaf(gate * a, args.sums[pair * (w + 1) + unit], sum);
            }
        }
        __syncthreads();
        slices[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && unit <= w) {
            for (int slice = 1; slice < HARMONIA_SUM_SLICES; ++slice) {
                sum += slices[slice][threadIdx.x];
            }
            output[unit < w ? b * w + unit : args.bases * w + b] += sum;
        }
    }
}

// One thread per parameter of the hidden layers.
KERNEL(monb_finish_hidden, MonbFinish) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.expert_count * args.hidden_size) {
        const uint64_t expert = at / args.hidden_size;
        args.d_parameters[expert * args.expert_size + at % args.hidden_size] += args.expert_sums[at];
    }
}
