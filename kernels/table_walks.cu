// What sampled walks add to a table that interpolates: the responses at their ends less what the table makes of these.
//
// With R walks of every row, w = w(i,r,t) where walk r is after t steps, g_q the points of a feature and F_q the responses there,
// ramp_q(x) = (x - g_{q-1}) / (g_q - g_{q-1}) within [0, 1], and c_t = theta_tk (1 - p) / R, p the probability to drop inputs:
// Forward   H[i,k] += sum_{t,r} c_t v(w), v(w) = F[w,k] - F_0 - sum_q ramp_q(x_wk) (F_q - F_{q-1})
// Backward  dF[w,k] = c_t dH[i,k]; dtheta[t,k] += sum_{i,r} (1 - p) / R dH[i,k] v(w);
//           S_0 = sum c_t dH[i,k], S_q = sum c_t dH[i,k] ramp_q(x_wk): dF_q -= S_q - S_{q+1}
// Shapes    ends: rows x R x steps x d; points, grid: most x d; sums: (steps + most) x d, dtheta first.
// Threads   forward: one per (row, feature); sums: one per feature and stretch of rows; finish: one per feature.
// Bytes     forward: X and F of the ends once. Sums: F once, dF written, then X and dF once per point of the feature that has most.
//           Deterministic: stretches of rows are added up by column_sums.

#include "common.cuh"

__device__ __forceinline__ float table_ramp(float x, const float* grid, uint64_t d, uint32_t k, uint32_t q) {
    const float low = grid[(q - 1) * d + k];
    return fminf(fmaxf((x - low) / (grid[q * d + k] - low), 0.0f), 1.0f);
}

// v of an end: its response less what is interpolated there.
__device__ __forceinline__ float table_lacking(const TableWalks& args, float response, float x, uint32_t k, uint32_t stored) {
    const uint64_t d = args.features;
    float lacking = response - args.points[k];
    for (uint32_t q = 1; q <= stored; ++q) {
        const float difference = args.points[q * d + k] - args.points[(q - 1) * d + k];
        lacking = fmaf(-table_ramp(x, args.grid, d, k, q), difference, lacking);
    }
    return lacking;
}

__device__ __forceinline__ uint32_t table_stored(const TableWalks& args, uint32_t k) {
    return (args.column_ptr[k + 1] - args.column_ptr[k]) / args.steps;
}

KERNEL(table_walks_forward, TableWalks) {
    const uint64_t d = args.features;
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= args.row_count * d) {
        return;
    }
    const uint64_t row = at / d;
    const uint32_t k = static_cast<uint32_t>(at % d);
    const uint32_t stored = table_stored(args, k);
    const uint64_t ends = static_cast<uint64_t>(args.walks) * args.steps;
    const uint64_t first = row * ends * d + k;
    float sum = 0.0f;
    uint32_t t = 0;
#pragma unroll 4
    for (uint64_t end = 0; end < ends; ++end) {
        const uint64_t place = first + end * d;
        const float lacking = table_lacking(args, args.responses[place], args.ends[place], k, stored);
        sum = fmaf(args.hop_weights[(1 + t) * d + k], lacking, sum);
        t = t + 1 == args.steps ? 0 : t + 1;
    }
    args.state[at] = fmaf(args.share, sum, args.state[at]);
}

// Grid: features / threads, stretches of rows.
KERNEL(table_walks_sums, TableWalks) {
    const uint64_t d = args.features;
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= d) {
        return;
    }
    const uint32_t k = static_cast<uint32_t>(column);
    const uint32_t stored = table_stored(args, k);
    const uint64_t first = blockIdx.y * args.stretch;
    const uint64_t last = first + args.stretch < args.row_count ? first + args.stretch : args.row_count;
    float* partial = args.partial + blockIdx.y * (static_cast<uint64_t>(args.steps) + args.most) * d + k;
    const uint64_t ends = static_cast<uint64_t>(args.walks) * args.steps;
    for (uint32_t t = 0; t < args.steps; ++t) {
        const float theta = args.hop_weights[(1 + t) * d + k];
        float sum = 0.0f;
        for (uint64_t row = first; row < last; ++row) {
            const float weighed = args.share * args.d_state[row * d + k];
            float of_row = 0.0f;
            for (uint64_t end = t; end < ends; end += args.steps) {
                const uint64_t place = (row * ends + end) * d + k;
                of_row += table_lacking(args, args.responses[place], args.ends[place], k, stored);
                args.responses[place] = theta * weighed;
            }
            sum = fmaf(weighed, of_row, sum);
        }
        partial[t * d] = sum;
    }
    for (uint32_t q = 0; q < args.most; ++q) {
        float sum = 0.0f;
        for (uint64_t row = first; q <= stored && row < last; ++row) {
            float of_row = 0.0f;
            for (uint64_t place = row * ends * d + k; place < (row + 1) * ends * d; place += d) {
                const float ramp = q == 0 ? 1.0f : table_ramp(args.ends[place], args.grid, d, k, q);
                of_row = fmaf(args.responses[place], ramp, of_row);
            }
            sum += of_row;
        }
        partial[(static_cast<uint64_t>(args.steps) + q) * d] = sum;
    }
}

KERNEL(table_walks_finish, TableWalksFinish) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    for (uint32_t t = 0; t < args.steps; ++t) {
        args.d_hop_weights[(1 + t) * d + k] += args.sums[t * d + k];
    }
    const float* sums = args.sums + args.steps * d + k;
    for (uint32_t q = 0; q < args.most; ++q) {
        const float above = q + 1 < args.most ? sums[(q + 1) * d] : 0.0f;
        args.points[q * d + k] += above - sums[q * d];
    }
}
