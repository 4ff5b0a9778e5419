// The loss over the targets of a batch, value and gradient in one pass; one file per loss.
//
// A loss has a Target (how it reads a word of args.targets), width(L) targets per row, present(target), and row(): the
// gradient of a row, times a scale, and its loss in every lane. Rows whose first target is absent: dz = 0. Where a row has one
// word more than targets, that is its weight: a factor on its loss and its scale. Without, it is 1, which changes no bit.
// Threads   a warp per row, lanes over outputs; a block adds its rows in order and writes one double.
// Bytes     logits and targets read once (further passes hit the cache), gradients written once. Deterministic.

#include "math.cuh"
#include "warp.cuh"

template <typename L>
__device__ void loss_rows(const Loss& args) {
    const uint32_t warps = blockDim.x / LANES;
    const uint64_t width = L::width(args.outputs);
    const bool weighted = args.stride > width;
    const uint64_t first = blockIdx.x * args.block_rows;
    const uint64_t last = smaller(first + args.block_rows, args.rows);
    double sum = 0.0;
    for (uint64_t row = first + threadIdx.x / LANES; row < last; row += warps) {
        float* d_row = args.d_logits + row * args.outputs;
        const float* logits = args.logits + row * args.outputs;
        const uint32_t* words = args.targets + row * args.stride;
        const typename L::Target* targets = reinterpret_cast<const typename L::Target*>(words);
        if (L::present(targets[0])) {
            const float weight = weighted ? __uint_as_float(words[width]) : 1.0f;
            const float loss = L::row(d_row, logits, targets, args.outputs, args.scale * weight);
            sum += static_cast<double>(weight) * static_cast<double>(loss);
        } else {
            for (uint32_t c = threadIdx.x % LANES; c < args.outputs; c += LANES) {
                d_row[c] = 0.0f;
            }
        }
    }
    // Every lane of a warp holds its warp's sum: count one of them.
    sum = block_sum(threadIdx.x % LANES == 0 ? sum : 0.0);
    if (threadIdx.x == 0) {
        args.partial[blockIdx.x] = sum;
    }
}

// Targets of some rows, each once; without words, these rows are no targets. All bits set is no class, and not a number.
// One thread per word.
KERNEL(retarget, Retarget) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < args.count * args.width) {
        const uint64_t to = static_cast<uint64_t>(args.rows[at / args.width]) * args.width + at % args.width;
        args.targets[to] = args.words ? args.words[at] : 0xffffffffu;
    }
}

#include "loss_softmax.cuh"
#include "loss_sigmoid.cuh"
#include "loss_squared.cuh"
