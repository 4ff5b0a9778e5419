// Shared memory behind its end, dynamic and static. Deliberately wrong.
#include "numbers.h"

KERNEL(out_of_bounds_dynamic, Numbers) {
    DYNAMIC_SHARED(float, tile);
    tile[threadIdx.x] = 1.0f;
    if (threadIdx.x == blockDim.x - 1) {
        tile[blockDim.x] = 2.0f;
    }
}

KERNEL(out_of_bounds_static, Numbers) {
    __shared__ float tile[2][16];
    tile[0][threadIdx.x] = args.in[threadIdx.x];
    __syncthreads();
    args.out[threadIdx.x] = tile[0][threadIdx.x];
}
