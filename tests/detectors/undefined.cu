// What the C++ language leaves undefined, and GPUs punish in their own ways. Deliberately wrong.
#include "numbers.h"

KERNEL(misaligned_vector, Numbers) {
    if (threadIdx.x == 2) {
        const float4 value = *reinterpret_cast<const float4*>(args.in + 1);
        args.out[0] = value.x + value.w;
    }
}

KERNEL(shift_too_far, Numbers) { args.out[threadIdx.x] = static_cast<float>(1u << (threadIdx.x + 20)); }

KERNEL(signed_overflow, Numbers) {
    const int large = 0x7ffffff0 + static_cast<int>(threadIdx.x);
    args.out[threadIdx.x] = static_cast<float>(large);
}
