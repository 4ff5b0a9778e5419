// Adam (weight decay added to the gradient) and AdamW (weight decay taken off the parameter), fused.
//
// scale = clip / norm where the norm is longer than that, else 1; where a step was halted, everything stays as it is.
// g = scale * gradient (+ decay * p for Adam);  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
// p = p * shrink - rate * m / (sqrt(v) * correction + eps)
// keep_signs: parameters that are to be on one side of zero, and are not, are set to it.
// keep: the best parameters so far stay on the device.
// Threads   one per parameter. Bytes: 16 read and 12 written per parameter, each once (keep_signs: 8 and 4; keep: 4 and 4). Deterministic.

#include "common.cuh"

KERNEL(adam, Adam) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= args.length || args.verdict->halted) {
        return;
    }
    const double norm = args.verdict->norm;
    const float scale = args.clip_norm > 0.0 && norm > args.clip_norm ? static_cast<float>(args.clip_norm / norm) : 1.0f;
    const float p = args.parameters[at];
    const float g = scale * args.gradient[at] + args.added_decay * p;
    const float m = args.beta1 * args.first_moment[at] + args.one_minus_beta1 * g;
    const float v = args.beta2 * args.second_moment[at] + args.one_minus_beta2 * g * g;
    args.first_moment[at] = m;
    args.second_moment[at] = v;
    args.parameters[at] = p * args.shrink - args.rate * m / (sqrtf(v) * args.correction + args.epsilon);
}

KERNEL(keep_signs, KeepSigns) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.length && args.values[at] * args.signs[at] < 0.0f) {
        args.values[at] = 0.0f;
    }
}

KERNEL(keep, Keep) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.length) {
        args.kept[at] = args.values[at];
    }
}
