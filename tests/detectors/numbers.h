// Arguments of all broken kernels.
#pragma once

#include "common.cuh"

struct Numbers {
    float* out;      // length
    const float* in; // length
    unsigned length;
};
