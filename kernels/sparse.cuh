// The points of a sparse X, as the experts see them.
#pragma once

#include "random.cuh"

// x at a place of column k, after dropout.
__device__ __forceinline__ float sparse_input(
    const SparseColumns& x, const Dropout& dropout, uint64_t place, uint32_t k) {
    const uint64_t element = static_cast<uint64_t>(__ldg(x.rows + place)) * x.features + k;
    return masked_input(dropout, __ldg(x.values + place), element);
}
