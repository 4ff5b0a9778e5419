// What responses cost that bend, and what that does to them: src/model/smoothness.rs has the formula.
//
// Of feature k, with n points g_q, share_q = (g_q+1 - g_q) / (g_q+1 - g_q-1) and inner points q = 1 .. n-2:
// Forward   r_q = 2 (n-1) (f_q - share_q f_q-1 - (1 - share_q) f_q+1), P_k = strength w s sum_q r_q^2,
//           w = sum_c W[k,c]^2, s = sum_t theta_tk^2 where hop weights are free, else 1
// Backward  with a_q = 4 (n-1) r_q: df_q = strength w s (a_q - share_q+1 a_q+1 - (1 - share_q-1) a_q-1),
//           dW[k,c] += 2 strength W[k,c] s sum_q r_q^2, dtheta[t,k] = 2 strength theta_tk w sum_q r_q^2
// Shapes    f points x d, overwritten by its gradient; points x d; theta T x d; W d x L
// Threads   one per feature: it alone reads and overwrites its column. Sums in double: differences of differences.
// Bytes     f, points, theta and W once. Deterministic.

#include "common.cuh"

KERNEL(bends, Bends) {
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t d = args.features;
    if (k >= d) {
        return;
    }
    double squared = 0.0;
    for (uint32_t c = 0; c < args.outputs; ++c) {
        const double weight = args.readout[static_cast<uint64_t>(k) * args.outputs + c];
        squared += weight * weight;
    }
    double reach = args.free_hops ? 0.0 : 1.0;
    for (uint32_t t = 0; args.free_hops && t < args.hops; ++t) {
        const double theta = args.hop_weights[t * d + k];
        reach += theta * theta;
    }
    const uint32_t count = static_cast<uint32_t>(args.counts[k]);
    const double factor = 2.0 * (static_cast<double>(count) - 1.0);
    const double scale = args.strength * squared * reach;
    // Of point q: its response, its slope and share, and what the one before it hands on.
    double here = args.responses[k];
    double next = count > 1 ? args.responses[d + k] : 0.0;
    double slope = 0.0;
    double share = 0.0;
    double handed_on = 0.0;
    double sum = 0.0;
    for (uint32_t q = 0; q < args.rows; ++q) {
        double beyond = 0.0;
        double next_slope = 0.0;
        double next_share = 0.0;
        if (q + 2 < count) {
            const float* point = args.points + q * d + k;
            const double before = static_cast<double>(point[d]) - static_cast<double>(point[0]);
            const double after = static_cast<double>(point[2 * d]) - static_cast<double>(point[d]);
            beyond = args.responses[(q + 2) * d + k];
            next_share = after / (before + after);
            const double bend = factor * (next - next_share * here - (1.0 - next_share) * beyond);
            sum += bend * bend;
            next_slope = 2.0 * factor * bend;
        }
        args.responses[q * d + k] = static_cast<float>(scale * (slope - next_share * next_slope - handed_on));
        handed_on = (1.0 - share) * slope;
        slope = next_slope;
        share = next_share;
        here = next;
        next = beyond;
    }
    args.penalties[k] = static_cast<float>(scale * sum);
    for (uint32_t c = 0; c < args.outputs; ++c) {
        const uint64_t at = static_cast<uint64_t>(k) * args.outputs + c;
        args.d_readout[at] += static_cast<float>(2.0 * args.strength * args.readout[at] * reach * sum);
    }
    for (uint32_t t = 0; t < args.hops; ++t) {
        const uint64_t at = t * d + k;
        args.d_hop_weights[at] = static_cast<float>(2.0 * args.strength * args.hop_weights[at] * squared * sum);
    }
}
