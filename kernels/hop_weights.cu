// Hop weights theta (T x d) from hop logits alpha (T x d).
//
// Forward   s = alpha^2 + 1e-8, theta[t,k] = s[t,k] / sum_u s[u,k]
// Backward  dalpha[t,k] += 2 alpha[t,k] (dtheta[t,k] - sum_u theta[u,k] dtheta[u,k]) / sum_u s[u,k]
// Free weights: theta = alpha, dalpha += dtheta.
// Threads   one per feature, so that rows of alpha are read coalesced. Deterministic.

#include "common.cuh"

constexpr float HOP_EPSILON = 1e-8f;

__device__ __forceinline__ float hop_strengths(const float* hop_logits, uint64_t features, uint32_t hops, uint64_t k) {
    float sum = 0.0f;
    for (uint32_t t = 0; t < hops; ++t) {
        const float alpha = hop_logits[t * features + k];
        sum += fmaf(alpha, alpha, HOP_EPSILON);
    }
    return sum;
}

KERNEL(hop_weights_forward, HopWeightsForward) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    const float sum = args.free_weights ? 1.0f : hop_strengths(args.hop_logits, d, args.hops, k);
    for (uint32_t t = 0; t < args.hops; ++t) {
        const float alpha = args.hop_logits[t * d + k];
        args.hop_weights[t * d + k] = args.free_weights ? alpha : fmaf(alpha, alpha, HOP_EPSILON) / sum;
    }
}

KERNEL(hop_weights_backward, HopWeightsBackward) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    float sum = 1.0f;
    float mean = 0.0f;
    if (!args.free_weights) {
        sum = hop_strengths(args.hop_logits, d, args.hops, k);
        for (uint32_t t = 0; t < args.hops; ++t) {
            mean = fmaf(args.hop_weights[t * d + k], args.d_hop_weights[t * d + k], mean);
        }
    }
    for (uint32_t t = 0; t < args.hops; ++t) {
        const float d_theta = args.d_hop_weights[t * d + k];
        args.d_hop_logits[t * d + k] +=
            args.free_weights ? d_theta : 2.0f * args.hop_logits[t * d + k] * (d_theta - mean) / sum;
    }
}
