// The kernels as host code; a test names kernels of its own instead.
#define HARMONIA_HOST 1
#ifndef HARMONIA_KERNELS
#define HARMONIA_KERNELS "../all.cu"
#endif
#include "../common.cuh"
#include HARMONIA_KERNELS

// Called by the engine's entry points: an archive member nobody refers to is not linked, and its kernels with it.
namespace harmonia_host {
__attribute__((visibility("hidden"))) void link_kernels() {}
} // namespace harmonia_host
