// Cross-entropy over the targets of a batch, value and gradient in one pass.
//
// Softmax   l = log sum_c exp(z_c) - z_y                      dz = (softmax(z) - onehot(y)) / targets
// Sigmoid   l = sum_c max(z,0) - z y + log(1 + exp(-|z|))     dz = (sigmoid(z) - y) / targets
// Rows whose first code is negative are no targets: dz = 0.
// Threads   a warp a row, lanes over outputs; a block adds its rows in order and writes one double.
// Bytes     logits and codes read once (further passes hit the cache), gradients written once. Deterministic.

#include "math.cuh"
#include "warp.cuh"

// One row of a warp: writes its gradient and returns its loss in every lane.
__device__ __forceinline__ float softmax_row(float* d_row, const float* row, const int32_t* codes, const Loss& args) {
    const uint32_t lane = threadIdx.x % LANES;
    const uint32_t label = static_cast<uint32_t>(codes[0]);
    float largest = -__uint_as_float(0x7f800000u);
    for (uint32_t c = lane; c < args.outputs; c += LANES) {
        largest = fmaxf(largest, row[c]);
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, offset));
    }
    float sum = 0.0f;
    for (uint32_t c = lane; c < args.outputs; c += LANES) {
        sum += expf(row[c] - largest);
    }
    sum = warp_sum(sum);
    for (uint32_t c = lane; c < args.outputs; c += LANES) {
        d_row[c] = (expf(row[c] - largest) / sum - (c == label ? 1.0f : 0.0f)) * args.scale;
    }
    return logf(sum) + largest - row[label];
}

__device__ __forceinline__ float sigmoid_row(float* d_row, const float* row, const int32_t* codes, const Loss& args) {
    float sum = 0.0f;
    for (uint32_t c = threadIdx.x % LANES; c < args.outputs; c += LANES) {
        const float z = row[c];
        const float y = static_cast<float>(codes[c]);
        d_row[c] = (sigmoid(z) - y) * args.scale;
        sum += fmaxf(z, 0.0f) - z * y + log1pf(expf(-fabsf(z)));
    }
    return warp_sum(sum);
}

template <bool SOFTMAX>
__device__ void loss_rows(const Loss& args) {
    const uint32_t warps = blockDim.x / LANES;
    const uint64_t width = SOFTMAX ? 1 : args.outputs;
    const uint64_t first = blockIdx.x * args.block_rows;
    const uint64_t last = smaller(first + args.block_rows, args.rows);
    double sum = 0.0;
    for (uint64_t row = first + threadIdx.x / LANES; row < last; row += warps) {
        float* d_row = args.d_logits + row * args.outputs;
        const float* logits = args.logits + row * args.outputs;
        const int32_t* codes = args.codes + row * width;
        if (codes[0] < 0) {
            for (uint32_t c = threadIdx.x % LANES; c < args.outputs; c += LANES) {
                d_row[c] = 0.0f;
            }
        } else {
            sum += SOFTMAX ? softmax_row(d_row, logits, codes, args) : sigmoid_row(d_row, logits, codes, args);
        }
    }
    // Every lane of a warp holds its warp's sum: count one of them.
    sum = block_sum(threadIdx.x % LANES == 0 ? sum : 0.0);
    if (threadIdx.x == 0) {
        args.partial[blockIdx.x] = sum;
    }
}

KERNEL(loss_softmax, Loss) {
    loss_rows<true>(args);
}

KERNEL(loss_sigmoid, Loss) {
    loss_rows<false>(args);
}
