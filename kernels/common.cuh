// What every kernel file starts from: the ABI, and CUDA itself or its host stand-in.
//
// `KERNEL(name, Args)` opens a kernel whose only argument is a struct of abi.h, called `args`. Kernels read nothing
// from outside their arguments, all lanes of a block reach every barrier, and every reduction has a fixed order.
#pragma once

#include "abi.h"

#ifdef HARMONIA_HOST
#include "host/cuda.h"
#else
#define KERNEL(name, Args) extern "C" __global__ void name(const __grid_constant__ Args args)
#endif
