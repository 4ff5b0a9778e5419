// Every kernel in one translation unit: one module for the GPU, one object for the host.
#include "adam.cu"
#include "head.cu"
#include "hop_weights.cu"
#include "loss.cu"
#include "monb.cu"
#include "propagate.cu"
#include "reduce.cu"
#include "route.cu"
