// l = sum_c max(z,0) - z y + log(1 + exp(-|z|))     dz = (sigmoid(z) - y) / targets

struct SigmoidLoss {
    typedef int32_t Target; // 0 or 1

    static __device__ __forceinline__ uint32_t width(uint32_t outputs) {
        return outputs;
    }

    static __device__ __forceinline__ bool present(Target target) {
        return target >= 0;
    }

    static __device__ __forceinline__ float row(float* d_row, const float* row, const Target* targets, uint32_t outputs,
                                                float scale) {
        float sum = 0.0f;
        for (uint32_t c = threadIdx.x % LANES; c < outputs; c += LANES) {
            const float z = row[c];
            const float y = static_cast<float>(targets[c]);
            d_row[c] = (sigmoid(z) - y) * scale;
            sum += fmaxf(z, 0.0f) - z * y + log1pf(expf(-fabsf(z)));
        }
        return warp_sum(sum);
    }
};

KERNEL(loss_sigmoid, Loss) {
    loss_rows<SigmoidLoss>(args);
}
