// l = log sum_c exp(z_c) - z_y          dz = (softmax(z) - onehot(y)) / targets

struct SoftmaxLoss {
    typedef int32_t Target; // the class

    static __device__ __forceinline__ uint32_t width(uint32_t) {
        return 1;
    }

    static __device__ __forceinline__ bool present(Target target) {
        return target >= 0;
    }

    static __device__ __forceinline__ float row(float* d_row, const float* row, const Target* targets, uint32_t outputs,
                                                float scale) {
        const uint32_t lane = threadIdx.x % LANES;
        const uint32_t label = static_cast<uint32_t>(targets[0]);
        float largest = -__uint_as_float(0x7f800000u);
        for (uint32_t c = lane; c < outputs; c += LANES) {
            largest = fmaxf(largest, row[c]);
        }
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, offset));
        }
        float sum = 0.0f;
        for (uint32_t c = lane; c < outputs; c += LANES) {
            sum += expf(row[c] - largest);
        }
        sum = warp_sum(sum);
        for (uint32_t c = lane; c < outputs; c += LANES) {
            d_row[c] = (expf(row[c] - largest) / sum - (c == label ? 1.0f : 0.0f)) * scale;
        }
        return logf(sum) + largest - row[label];
    }
};

KERNEL(loss_softmax, Loss) {
    loss_rows<SoftmaxLoss>(args);
}
