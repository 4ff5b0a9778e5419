// Warp operations that some lane of the mask never reaches. Deliberately wrong.
#include "numbers.h"

KERNEL(shuffle_with_returned_lane, Numbers) {
    if (threadIdx.x == 9) {
        return;
    }
    args.out[threadIdx.x] = __shfl_down_sync(0xffffffffu, args.in[threadIdx.x], 1);
}

KERNEL(shuffle_against_barrier, Numbers) {
    if (threadIdx.x < 16) {
        args.out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, args.in[threadIdx.x], 1);
    }
    __syncthreads();
}

KERNEL(shuffles_in_branches, Numbers) {
    if (threadIdx.x < 16) {
        args.out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, args.in[threadIdx.x], 1);
    } else {
        args.out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, args.in[threadIdx.x], 2);
    }
}

KERNEL(shuffle_without_itself, Numbers) {
    args.out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, args.in[threadIdx.x], 1);
}

KERNEL(shuffle_from_inactive_lane, Numbers) {
    if (threadIdx.x < 16) {
        args.out[threadIdx.x] = __shfl_sync(0x0000ffffu, args.in[threadIdx.x], 20);
    }
}
