// What every kernel file starts from: the ABI, and CUDA itself or its host stand-in.
//
// `KERNEL(name, Args)` opens a kernel whose only argument is a struct of abi.h, called `args`; BOUNDED_KERNEL also tells
// the compiler the threads of a block and how many blocks should fit a multiprocessor. Kernels read nothing from outside
// their arguments, all lanes of a block reach every barrier, and every reduction has a fixed order.
#pragma once

#include "abi.h"

#ifdef HARMONIA_HOST
#include "host/cuda.h"
#else
#define DYNAMIC_SHARED(type, name)                                                                                     \
    extern __shared__ __align__(16) unsigned char harmonia_dynamic_shared[];                                           \
    type* name = reinterpret_cast<type*>(harmonia_dynamic_shared)
#define KERNEL(name, Args) extern "C" __global__ void name(const __grid_constant__ Args args)
#define BOUNDED_KERNEL(name, Args, threads, blocks)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args args)
#endif
