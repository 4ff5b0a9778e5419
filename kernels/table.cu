// Steps from a table of walks: no edge is touched.
//
// A cell u of column (k, t, q) stands for P = low + step u. With f_q the responses at the points of feature k (where inputs
// are dropped, f_q stands for (1 - p) f_q + p f(0)), delta_q = f_q - f_0:
// Forward   H[i,k] = theta_0k F[i,k] + sum_t theta_tk (size_i f_0 + sum_q P[i,t,q] delta_q)
// Backward  S[t,q] = sum_i dH[i,k] P[i,t,q], N = sum_i size_i dH[i,k]
//           dtheta[t,k] = N f_0 + sum_q S[t,q] delta_q, df_q = sum_t theta_tk S[t,q], df_0 = sum_t theta_tk (N - sum_q S[t,q])
//           F of a unit gets theta_0k dH[i,k]; dtheta[0,k] = sum_i F[i,k] dH[i,k]. Rows of graphs have no F, and cells of t = 0.
// Threads   forward: one per (row, feature of a block of features), whose cells are contiguous, the weights of the block in
//           shared memory, feature beside feature; sums: one per column, rows one after the other, so that cells are read coalesced.
// Bytes     every cell of the batch once forward and once backward. Deterministic: stretches of rows are added up by column_sums.

#include "common.cuh"

// The response of feature k at point q, as walks average it.
__device__ __forceinline__ float table_point(const float* points, uint32_t features, uint32_t k, uint32_t q, uint32_t zero,
                                             float dropped) {
    const float value = points[static_cast<uint64_t>(q) * features + k];
    return dropped > 0.0f
        ? fmaf(1.0f - dropped, value, dropped * points[static_cast<uint64_t>(zero) * features + k])
        : value;
}

KERNEL(table_weights, TableWeights) {
    const uint32_t d = args.features;
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    const uint32_t steps = args.hops - args.first_hop;
    uint32_t column = args.column_ptr[k];
    const uint32_t stored = steps ? (args.column_ptr[k + 1] - column) / steps : 0;
    const float zero = table_point(args.points, d, k, 0, args.zero, args.dropped);
    float once = 0.0f, sized = 0.0f;
    for (uint32_t t = args.first_hop; t < args.hops; ++t) {
        const float theta = args.hop_weights[static_cast<uint64_t>(t) * d + k];
        sized = fmaf(theta, zero, sized);
        for (uint32_t q = 1; q <= stored; ++q, ++column) {
            const float weight = theta * (table_point(args.points, d, k, q, args.zero, args.dropped) - zero);
            once = fmaf(weight, args.scales[2 * column], once);
            args.weights[column] = weight * args.scales[2 * column + 1];
        }
    }
    args.constants[2 * k] = once;
    args.constants[2 * k + 1] = sized;
}

// The cells of a feature, each times its weight, in order.
template <typename Cell>
__device__ __forceinline__ float table_sum(
    float sum, const Cell* cells, uint32_t count, const float* weights, uint32_t stride) {
#pragma unroll 4
    for (uint32_t at = 0; at < count; ++at) {
        sum = fmaf(static_cast<float>(cells[at]), weights[at * stride], sum);
    }
    return sum;
}

template <typename Cell>
__device__ __forceinline__ void table_forward_block(const TableForward& args, float* staged) {
    const uint32_t first_column = args.column_ptr[args.first_feature];
    // Neighbouring lanes have neighbouring features: in shared memory these are neighbours too, so that no two meet in a bank.
    for (uint32_t at = threadIdx.x; at < args.longest * args.block_features; at += blockDim.x) {
        const uint32_t k = args.first_feature + at % args.block_features;
        const uint32_t column = args.column_ptr[k] + at / args.block_features;
        if (column < args.column_ptr[k + 1]) {
            staged[at] = args.weights[column];
        }
    }
    __syncthreads();
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t row = at / args.block_features;
    if (row >= args.row_count) {
        return;
    }
    const uint32_t k = args.first_feature + static_cast<uint32_t>(at % args.block_features);
    const uint32_t begin = args.column_ptr[k] - first_column;
    const uint32_t end = args.column_ptr[k + 1] - first_column;
    const Cell* cells = static_cast<const Cell*>(args.cells) + static_cast<uint64_t>(args.rows[row]) * args.width;
    float sum = fmaf(args.sizes ? args.sizes[row] : 1.0f, args.constants[2 * k + 1], args.constants[2 * k]);
    const uint64_t place = row * args.features + k;
    if (args.own) {
        sum = fmaf(args.hop_weights[k], args.own[place], sum);
    }
    if (args.longest) {
        sum = table_sum(sum, cells + begin, end - begin, staged + (k - args.first_feature), args.block_features);
    } else {
        sum = table_sum(sum, cells + begin, end - begin, args.weights + first_column + begin, 1);
    }
    args.state[place] = sum;
}

KERNEL(table_forward_u8, TableForward) {
    DYNAMIC_SHARED(float, staged);
    table_forward_block<unsigned char>(args, staged);
}
KERNEL(table_forward_u16, TableForward) {
    DYNAMIC_SHARED(float, staged);
    table_forward_block<unsigned short>(args, staged);
}
KERNEL(table_forward_f32, TableForward) {
    DYNAMIC_SHARED(float, staged);
    table_forward_block<float>(args, staged);
}

// Grid: columns of the block / threads, stretches of rows.
template <typename Cell>
__device__ __forceinline__ void table_sums_block(const TableSums& args) {
    const uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= args.width) {
        return;
    }
    const uint32_t k = args.column_feature[args.first_column + column];
    const uint64_t first = blockIdx.y * args.stretch;
    const uint64_t last = first + args.stretch < args.row_count ? first + args.stretch : args.row_count;
    const Cell* cells = static_cast<const Cell*>(args.cells) + column;
    float sum = 0.0f;
#pragma unroll 4
    for (uint64_t row = first; row < last; ++row) {
        const float cell = static_cast<float>(cells[static_cast<uint64_t>(args.rows[row]) * args.width]);
        sum = fmaf(args.d_state[row * args.features + k], cell, sum);
    }
    args.partial[blockIdx.y * static_cast<uint64_t>(args.width) + column] = sum;
}

KERNEL(table_sums_u8, TableSums) { table_sums_block<unsigned char>(args); }
KERNEL(table_sums_u16, TableSums) { table_sums_block<unsigned short>(args); }
KERNEL(table_sums_f32, TableSums) { table_sums_block<float>(args); }

// Grid: features / threads, stretches of rows.
KERNEL(table_row_sums, TableRowSums) {
    const uint64_t d = args.features;
    const uint64_t k = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    const uint64_t first = blockIdx.y * args.stretch;
    const uint64_t last = first + args.stretch < args.row_count ? first + args.stretch : args.row_count;
    float plain = 0.0f, sized = 0.0f, own = 0.0f;
    for (uint64_t row = first; row < last; ++row) {
        const float value = args.d_state[row * d + k];
        plain += value;
        sized = fmaf(args.sizes ? args.sizes[row] : 1.0f, value, sized);
        if (args.own) {
            own = fmaf(args.own[row * d + k], value, own);
        }
    }
    float* partial = args.partial + blockIdx.y * 3 * d + k;
    partial[0] = plain;
    partial[d] = sized;
    partial[2 * d] = own;
}

// One thread per feature: it alone reads and overwrites its column of `points`.
KERNEL(table_finish, TableFinish) {
    const uint32_t d = args.features;
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= d) {
        return;
    }
    const uint32_t steps = args.hops - args.first_hop;
    const uint32_t begin = args.column_ptr[k];
    const uint32_t stored = steps ? (args.column_ptr[k + 1] - begin) / steps : 0;
    const float plain = args.row_sums[k];
    const float sized = args.row_sums[d + k];
    const float zero = table_point(args.points, d, k, 0, args.most, args.dropped);
    if (args.first_hop > 0) {
        args.d_hop_weights[k] = args.row_sums[2 * d + k];
    }
    float rest = 0.0f;
    for (uint32_t t = 0; t < steps; ++t) {
        const uint64_t hop = static_cast<uint64_t>(args.first_hop + t) * d + k;
        float d_theta = sized * zero, left = sized;
        for (uint32_t q = 1; q <= stored; ++q) {
            const uint32_t column = begin + t * stored + q - 1;
            const float sum = fmaf(args.scales[2 * column], plain, args.scales[2 * column + 1] * args.sums[column]);
            d_theta = fmaf(sum, table_point(args.points, d, k, q, args.most, args.dropped) - zero, d_theta);
            left -= sum;
        }
        args.d_hop_weights[hop] = d_theta;
        rest = fmaf(args.hop_weights[hop], left, rest);
    }
    float all = 0.0f;
    for (uint32_t q = 0; q < args.most; ++q) {
        float gradient = q == 0 ? rest : 0.0f;
        for (uint32_t t = 0; q > 0 && q <= stored && t < steps; ++t) {
            const uint32_t column = begin + t * stored + q - 1;
            const float sum = fmaf(args.scales[2 * column], plain, args.scales[2 * column + 1] * args.sums[column]);
            gradient = fmaf(args.hop_weights[static_cast<uint64_t>(args.first_hop + t) * d + k], sum, gradient);
        }
        all += gradient;
        args.points[static_cast<uint64_t>(q) * d + k] = (1.0f - args.dropped) * gradient;
    }
    if (args.dropped > 0.0f) {
        args.points[static_cast<uint64_t>(args.most) * d + k] = args.dropped * all;
    }
}

KERNEL(table_own, TableOwn) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.row_count * args.features) {
        args.responses[at] = args.hop_weights[at % args.features] * args.d_state[at];
    }
}
