// Hop weights theta (T x d) from hop logits alpha (T x d).
//
// simplex   s = alpha^2 + 1e-8, theta[t,k] = s[t,k] / sum_u s[u,k]
//           dalpha[t,k] += 2 alpha[t,k] (dtheta[t,k] - sum_u theta[u,k] dtheta[u,k]) / sum_u s[u,k]
// absolute  s = |alpha| + 1e-8, as simplex with the slope sign(alpha) in place of 2 alpha
// signed    theta[t,k] = alpha[t,k] / S, S = sum_u (|alpha[u,k]| + 1e-8)
//           dalpha[t,k] += (dtheta[t,k] - sign(alpha[t,k]) sum_u theta[u,k] dtheta[u,k]) / S
// free      theta = alpha, dalpha += dtheta; in a basis U (T x T): theta = U alpha, dalpha += U' dtheta
// Threads   one per feature, so that rows of alpha are read coalesced. Deterministic.

#include "common.cuh"

constexpr float HOP_EPSILON = 1e-8f;

__device__ __forceinline__ float hop_strength(float alpha, uint32_t kind) {
    return kind == HARMONIA_HOPS_SIMPLEX ? fmaf(alpha, alpha, HOP_EPSILON) : fabsf(alpha) + HOP_EPSILON;
}

__device__ __forceinline__ float hop_slope(float alpha, uint32_t kind) {
    return kind == HARMONIA_HOPS_SIMPLEX ? 2.0f * alpha : alpha < 0.0f ? -1.0f : 1.0f;
}

__device__ __forceinline__ float hop_strengths(const float* hop_logits, uint64_t features, uint32_t hops, uint64_t k,
                                               uint32_t kind) {
    float sum = 0.0f;
    for (uint32_t t = 0; t < hops; ++t) {
        sum += hop_strength(hop_logits[t * features + k], kind);
    }
    return sum;
}

// sum over u of A[t,u] x[u,k], where A is `basis` or its transpose; x itself without a basis.
__device__ __forceinline__ float hop_product(const float* basis, const float* x, uint64_t features, uint32_t hops, uint64_t k,
                                             uint32_t t, bool transposed) {
    if (basis == nullptr) {
        return x[t * features + k];
    }
    float sum = 0.0f;
    for (uint32_t u = 0; u < hops; ++u) {
        sum = fmaf(basis[transposed ? u * hops + t : t * hops + u], x[u * features + k], sum);
    }
    return sum;
}

KERNEL(hop_weights_forward, HopWeightsForward) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    if (args.kind == HARMONIA_HOPS_FREE) {
        for (uint32_t t = 0; t < args.hops; ++t) {
            args.hop_weights[t * d + k] = hop_product(args.basis, args.hop_logits, d, args.hops, k, t, false);
        }
        return;
    }
    const float sum = hop_strengths(args.hop_logits, d, args.hops, k, args.kind);
    for (uint32_t t = 0; t < args.hops; ++t) {
        const float alpha = args.hop_logits[t * d + k];
        args.hop_weights[t * d + k] = (args.kind == HARMONIA_HOPS_SIGNED ? alpha : hop_strength(alpha, args.kind)) / sum;
    }
}

KERNEL(hop_weights_backward, HopWeightsBackward) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    if (args.kind == HARMONIA_HOPS_FREE) {
        for (uint32_t t = 0; t < args.hops; ++t) {
            args.d_hop_logits[t * d + k] += hop_product(args.basis, args.d_hop_weights, d, args.hops, k, t, true);
        }
        return;
    }
    const float sum = hop_strengths(args.hop_logits, d, args.hops, k, args.kind);
    float mean = 0.0f;
    for (uint32_t t = 0; t < args.hops; ++t) {
        mean = fmaf(args.hop_weights[t * d + k], args.d_hop_weights[t * d + k], mean);
    }
    for (uint32_t t = 0; t < args.hops; ++t) {
        const float d_theta = args.d_hop_weights[t * d + k];
        const float slope = hop_slope(args.hop_logits[t * d + k], args.kind);
        args.d_hop_logits[t * d + k] +=
            (args.kind == HARMONIA_HOPS_SIGNED ? d_theta - slope * mean : slope * (d_theta - mean)) / sum;
    }
}
