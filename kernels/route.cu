// Routing of features to experts.
//
// Forward   N = e Wn, Q = e Wg + eps * sigmoid(N); top m of Q in each row, ties to the lower expert; pi = sigmoid(Q)
// Backward  dQ = dpi * pi (1 - pi), dN = dQ * eps * sigmoid(N) (1 - sigmoid(N)) on the chosen entries;
//           de += dQ Wg^T + dN Wn^T, dWg += e^T dQ, dWn += e^T dN
// Shapes    e d x q; Wg, Wn q x C; Q, N, eps d x C; experts, pi, sigmoid(N) d x m
// Threads   forward: a warp per feature, lanes over experts. Backward: a thread per entry of e; a block per entry of Wg, Wn.
// Bytes     forward: e once, the router once per block from cache, d x m out. Deterministic.

#include "math.cuh"
#include "warp.cuh"

// Shared memory: 2 C floats per warp. Block 32 x warps.
KERNEL(route_forward, RouteForward) {
    DYNAMIC_SHARED(float, memory);
    const uint32_t count = args.expert_count;
    const uint32_t lane = threadIdx.x;
    const uint32_t k = blockIdx.x * blockDim.y + threadIdx.y;
    if (k >= args.features) {
        return; // the whole warp; there is no block barrier
    }
    // A lane reads only the entries it wrote, so the warp needs no barrier either.
    float* scores = memory + threadIdx.y * 2 * count;
    float* scales = scores + count;
    const float* embedding = args.embeddings + static_cast<uint64_t>(k) * args.embedding;
    for (uint32_t c = lane; c < count; c += LANES) {
        float score = 0.0f;
        float scale = 0.0f;
        for (uint32_t j = 0; j < args.embedding; ++j) {
            const float e = __ldg(embedding + j);
            score = fmaf(e, __ldg(args.router_gate + static_cast<uint64_t>(j) * count + c), score);
            scale = fmaf(e, __ldg(args.router_noise + static_cast<uint64_t>(j) * count + c), scale);
        }
        scale = sigmoid(scale);
        if (args.noise) {
            score = fmaf(args.noise[static_cast<uint64_t>(k) * count + c], scale, score);
        }
        scores[c] = score;
        scales[c] = scale;
    }
    constexpr uint32_t NONE = 0xffffffffu;
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        float best = 0.0f;
        uint32_t chosen = NONE;
        for (uint32_t c = lane; c < count; c += LANES) {
            const float score = scores[c];
            // A taken expert is NaN, which is never greater and never equal.
            if (score == score && (chosen == NONE || score > best)) {
                best = score;
                chosen = c;
            }
        }
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            const float score = __shfl_xor_sync(FULL_WARP, best, offset);
            const uint32_t c = __shfl_xor_sync(FULL_WARP, chosen, offset);
            if (c != NONE && (chosen == NONE || score > best || (score == best && c < chosen))) {
                best = score;
                chosen = c;
            }
        }
        const uint64_t at = static_cast<uint64_t>(k) * args.active + slot;
        if (chosen == NONE) {
            // Only where training has diverged: stay in range and let NaN tell.
            if (lane == 0) {
                args.experts[at] = slot;
                args.gates[at] = __uint_as_float(0x7fc00000u);
                args.noise_scale[at] = __uint_as_float(0x7fc00000u);
            }
        } else if (chosen % LANES == lane) {
            args.experts[at] = chosen;
            args.gates[at] = sigmoid(best);
            args.noise_scale[at] = scales[chosen];
            scores[chosen] = __uint_as_float(0x7fc00000u);
        }
    }
}

// dQ and dN of slot `at` of feature k.
__device__ __forceinline__ void route_gradients(
    float& d_score, float& d_noise, const RouteBackward& args, uint64_t at, uint32_t k, uint32_t expert) {
    const float gate = args.gates[at];
    const float scale = args.noise_scale[at];
    d_score = args.d_gates[at] * gate * (1.0f - gate);
    const float eps = args.noise ? args.noise[static_cast<uint64_t>(k) * args.expert_count + expert] : 0.0f;
    d_noise = d_score * eps * scale * (1.0f - scale);
}

// One thread per entry of e.
KERNEL(route_backward_embeddings, RouteBackward) {
    const uint64_t entry = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (entry >= static_cast<uint64_t>(args.features) * args.embedding) {
        return;
    }
    const uint32_t k = static_cast<uint32_t>(entry / args.embedding);
    const uint32_t j = static_cast<uint32_t>(entry % args.embedding);
    float sum = 0.0f;
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        const uint64_t at = static_cast<uint64_t>(k) * args.active + slot;
        const uint32_t expert = args.experts[at];
        float d_score;
        float d_noise;
        route_gradients(d_score, d_noise, args, at, k, expert);
        const uint64_t weight = static_cast<uint64_t>(j) * args.expert_count + expert;
        sum += d_score * __ldg(args.router_gate + weight) + d_noise * __ldg(args.router_noise + weight);
    }
    args.d_embeddings[entry] += sum;
}

// One block per entry (j, c) of Wg and Wn, over the features that chose expert c.
KERNEL(route_backward_router, RouteBackward) {
    const uint32_t j = blockIdx.x / args.expert_count;
    const uint32_t c = blockIdx.x % args.expert_count;
    const uint64_t slots = static_cast<uint64_t>(args.features) * args.active;
    float gate = 0.0f;
    float noise = 0.0f;
    for (uint64_t at = threadIdx.x; at < slots; at += blockDim.x) {
        if (args.experts[at] == c) {
            const uint32_t k = static_cast<uint32_t>(at / args.active);
            float d_score;
            float d_noise;
            route_gradients(d_score, d_noise, args, at, k, c);
            const float e = __ldg(args.embeddings + static_cast<uint64_t>(k) * args.embedding + j);
            gate = fmaf(d_score, e, gate);
            noise = fmaf(d_noise, e, noise);
        }
    }
    gate = block_sum(gate);
    noise = block_sum(noise);
    if (threadIdx.x == 0) {
        args.d_router_gate[blockIdx.x] += gate;
        args.d_router_noise[blockIdx.x] += noise;
    }
}
