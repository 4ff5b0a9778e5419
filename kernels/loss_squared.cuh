// l = sum_c (z - y)^2 / 2     dz = (z - y) / targets

struct SquaredLoss {
    typedef float Target; // a number; NaN: none

    static __device__ __forceinline__ uint32_t width(uint32_t outputs) {
        return outputs;
    }

    static __device__ __forceinline__ bool present(Target target) {
        return target == target;
    }

    static __device__ __forceinline__ float row(float* d_row, const float* row, const Target* targets, uint32_t outputs,
                                                float scale) {
        float sum = 0.0f;
        for (uint32_t c = threadIdx.x % LANES; c < outputs; c += LANES) {
            const float error = row[c] - targets[c];
            d_row[c] = error * scale;
            sum += 0.5f * error * error;
        }
        return warp_sum(sum);
    }
};

KERNEL(loss_squared, Loss) {
    loss_rows<SquaredLoss>(args);
}
