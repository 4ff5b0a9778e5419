// Global memory behind the end of an allocation, and memory of nobody. Deliberately wrong.
#include "numbers.h"

// The grid is one block too large, and nobody looks at the length.
KERNEL(out_of_bounds_write, Numbers) { args.out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }

KERNEL(out_of_bounds_read, Numbers) {
    const unsigned i = threadIdx.x;
    args.out[i] = args.in[i + 1];
}

// Begins inside and ends outside.
KERNEL(out_of_bounds_vector, Numbers) {
    if (threadIdx.x == 5) {
        *reinterpret_cast<float4*>(args.out + args.length - 2) = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
    }
}

KERNEL(null_pointer, Numbers) {
    if (threadIdx.x == 3) {
        args.out[0] = *static_cast<const float*>(nullptr);
    }
}

KERNEL(out_of_bounds_atomic, Numbers) { atomicAdd(args.out + args.length, 1.0f); }
