// Around the readout GEMMs: the intercept, and the sum over each graph for graph tasks.
//
// Forward   logits = beta (+ H Wo by GEMM);  h_G = sum over the nodes of G of H
// Backward  dH of a node = dh of its graph  (dbeta is a column sum, dWo and dH are GEMMs)
// Threads   one a (row, output) or (graph, feature): neighbouring threads touch neighbouring addresses.
// Bytes     every element once. Deterministic.

#include "common.cuh"

KERNEL(readout_bias, Bias) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.rows * args.outputs) {
        args.logits[at] = __ldg(args.bias + at % args.outputs);
    }
}

KERNEL(graph_sum_forward, GraphSum) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t d = args.features;
    if (at >= args.graphs * d) {
        return;
    }
    const uint64_t graph = at / d;
    float sum = 0.0f;
    for (uint64_t i = args.graph_ptr[graph]; i < args.graph_ptr[graph + 1]; ++i) {
        sum += args.nodes[i * d + at % d];
    }
    args.pooled[at] = sum;
}

KERNEL(graph_sum_backward, GraphSum) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t d = args.features;
    if (at >= args.graphs * d) {
        return;
    }
    const uint64_t graph = at / d;
    const float value = args.pooled[at];
    for (uint64_t i = args.graph_ptr[graph]; i < args.graph_ptr[graph + 1]; ++i) {
        args.nodes[i * d + at % d] = value;
    }
}

// Some rows of a matrix, one after the other. One thread per element.
KERNEL(read_rows, ReadRows) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.row_count * args.width) {
        args.out[at] = args.values[static_cast<uint64_t>(args.rows[at / args.width]) * args.width + at % args.width];
    }
}
