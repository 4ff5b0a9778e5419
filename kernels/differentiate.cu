// Gradients of experts, gates and coefficients from sums over pieces: src/knots, on the device.
//
// With G1 = sum of g x and G0 = sum of g over the points of a piece, gradients of gates and coefficients are sums over pieces;
// those of lines go back through the layers as through a linear network.
// Shapes    lines C x room x B; of features d x most; sums stride x 2 x d
// Threads   knots_gates: a warp per feature; knots_parts: a block per expert and stretch of features, a thread per (piece,
//           basis); knots_experts_backward: a block per expert.
// Bytes     what compile.cu wrote, and sums, once: they stay in the cache. Deterministic: every number belongs to one thread.

#include "compile.cuh"

// Gradients of gates and coefficients, and the sums of each slot by the pieces of its expert. Block 32 x 8; grid: features.
KERNEL(knots_gates, KnotsFinish) {
    const Compiled& compiled = args.compiled;
    const uint32_t lane = threadIdx.x;
    const uint32_t room = compiled.room;
    const uint32_t bases = compiled.bases;
    const uint64_t d = args.features;
    const uint32_t k = blockIdx.x * blockDim.y + threadIdx.y;
    if (k >= d) {
        return; // the whole warp; there is no block barrier
    }
    const float* merged = args.thresholds + static_cast<uint64_t>(k) * args.most;
    const uint32_t count = args.piece_count[k];
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        const uint64_t at = static_cast<uint64_t>(k) * args.active + slot;
        const uint32_t c = args.experts[at];
        const uint32_t pieces = pieces_of(compiled, c);
        const float* own = compiled.thresholds + static_cast<uint64_t>(c) * room;
        const float* folded = args.folded + at * 2 * room;
        double* sums = args.slot_sums + at * 2 * room;
        double d_gate = 0.0;
        for (uint32_t piece = lane; piece < pieces; piece += LANES) {
            const uint32_t begin = piece == 0 ? 0 : count_below<false>(merged, count - 1, own[piece - 1]) + 1;
            const uint32_t end = piece + 1 == pieces ? count : count_below<false>(merged, count - 1, own[piece]) + 1;
            double g_x = 0.0;
            double g = 0.0;
            for (uint32_t part = begin; part < end; ++part) {
                g_x += args.sums[2 * part * d + k];
                g += args.sums[(2 * part + 1) * d + k];
            }
            sums[piece] = g_x;
            sums[room + piece] = g;
            d_gate += static_cast<double>(folded[piece]) * g_x + static_cast<double>(folded[room + piece]) * g;
        }
        d_gate = warp_sum(d_gate);
        if (lane == 0) {
            args.d_gates[at] = static_cast<float>(d_gate);
        }
    }
    __syncwarp();
    for (uint32_t b = lane; b < bases; b += LANES) {
        double sum = 0.0;
        for (uint32_t slot = 0; slot < args.active; ++slot) {
            const uint64_t at = static_cast<uint64_t>(k) * args.active + slot;
            const uint32_t c = args.experts[at];
            const uint32_t pieces = pieces_of(compiled, c);
            const uint64_t lines = static_cast<uint64_t>(c) * room * bases + b;
            const double* sums = args.slot_sums + at * 2 * room;
            double of_slot = 0.0;
            for (uint32_t piece = 0; piece < pieces; ++piece) {
                const uint64_t line = lines + static_cast<uint64_t>(piece) * bases;
                of_slot += compiled.slopes[line] * sums[piece] + compiled.intercepts[line] * sums[room + piece];
            }
            sum += static_cast<double>(args.gates[at]) * of_slot;
        }
        args.d_coefficients[static_cast<uint64_t>(k) * bases + b] += static_cast<float>(sum);
    }
}

// Gradients of an expert's lines from the features of a stretch. Block 128; grid: experts, stretches.
KERNEL(knots_parts, KnotsFinish) {
    const Compiled& compiled = args.compiled;
    const uint32_t c = blockIdx.x;
    const uint32_t room = compiled.room;
    const uint32_t bases = compiled.bases;
    const uint64_t size = static_cast<uint64_t>(room) * bases;
    const uint64_t first = static_cast<uint64_t>(blockIdx.y) * args.stretch;
    const uint64_t last = first + args.stretch < args.features ? first + args.stretch : args.features;
    double* parts = args.parts + (static_cast<uint64_t>(blockIdx.y) * compiled.expert_count + c) * 2 * size;
    for (uint32_t at = threadIdx.x; at < pieces_of(compiled, c) * bases; at += COMPILE_THREADS) {
        const uint32_t piece = at / bases;
        const uint32_t b = at % bases;
        double d_slope = 0.0;
        double d_intercept = 0.0;
        for (uint64_t slot = first * args.active; slot < last * args.active; ++slot) {
            if (args.experts[slot] == c) {
                const double weight =
                    static_cast<double>(args.gates[slot]) * args.coefficients[slot / args.active * bases + b];
                const double* sums = args.slot_sums + slot * 2 * room;
                d_slope += weight * sums[piece];
                d_intercept += weight * sums[room + piece];
            }
        }
        parts[at] = d_slope;
        parts[size + at] = d_intercept;
    }
}

// Gradients of all layers of an expert. Block 128; grid: experts.
KERNEL(knots_experts_backward, KnotsFinish) {
    const Compiled& compiled = args.compiled;
    const uint32_t c = blockIdx.x;
    const uint32_t room = compiled.room;
    const uint64_t size = static_cast<uint64_t>(room) * compiled.widest;
    double* d_slopes = args.d_outputs + static_cast<uint64_t>(c) * 2 * size;
    double* d_intercepts = d_slopes + size;
    double* row_slopes = args.d_inputs + static_cast<uint64_t>(c) * 2 * size;
    double* row_intercepts = row_slopes + size;
    const uint64_t lines = static_cast<uint64_t>(room) * compiled.bases;
    for (uint32_t at = threadIdx.x; at < pieces_of(compiled, c) * compiled.bases; at += COMPILE_THREADS) {
        double slope = 0.0;
        double intercept = 0.0;
        for (uint32_t stretch = 0; stretch < args.stretches; ++stretch) {
            const uint64_t part = static_cast<uint64_t>(stretch) * compiled.expert_count + c;
            slope += args.parts[part * 2 * lines + at];
            intercept += args.parts[(part * 2 + 1) * lines + at];
        }
        d_slopes[at] = slope;
        d_intercepts[at] = intercept;
    }
    __syncthreads();
    uint64_t offset = compiled.expert_size; // behind the layer at hand
    uint64_t first_unit = compiled.units;
    for (uint32_t l = compiled.layers; l-- > 0;) {
        const uint32_t inputs = compiled.widths[l];
        const uint32_t width = compiled.widths[l + 1];
        const uint32_t pieces = compiled.counts[c * compiled.layers + l];
        offset -= static_cast<uint64_t>(inputs + 1) * width;
        first_unit -= inputs;
        const uint64_t level = (static_cast<uint64_t>(c) * compiled.units + first_unit) * room;
        const double* slopes = compiled.level_slopes + level;
        const double* intercepts = compiled.level_intercepts + level;
        const float* weight = compiled.parameters + c * compiled.expert_size + offset;
        float* d_weight = args.gradient + c * compiled.expert_size + offset;
        float* d_bias = d_weight + static_cast<uint64_t>(width) * inputs;
        for (uint32_t at = threadIdx.x; at < width * inputs; at += COMPILE_THREADS) {
            const uint32_t unit = at / inputs;
            const uint32_t v = at % inputs;
            double sum = 0.0;
            for (uint32_t piece = 0; piece < pieces; ++piece) {
                const uint64_t from = static_cast<uint64_t>(piece) * width + unit;
                const uint64_t line = static_cast<uint64_t>(piece) * inputs + v;
                sum += d_slopes[from] * slopes[line] + d_intercepts[from] * intercepts[line];
            }
            d_weight[at] += static_cast<float>(sum);
        }
        for (uint32_t unit = threadIdx.x; unit < width; unit += COMPILE_THREADS) {
            double sum = 0.0;
            for (uint32_t piece = 0; piece < pieces; ++piece) {
                sum += d_intercepts[static_cast<uint64_t>(piece) * width + unit];
            }
            d_bias[unit] += static_cast<float>(sum);
        }
        if (l == 0) {
            return; // the whole block
        }
        // Through the weights, where a unit is on.
        for (uint32_t at = threadIdx.x; at < pieces * inputs; at += COMPILE_THREADS) {
            const uint64_t piece = at / inputs;
            const uint32_t v = at % inputs;
            double slope = 0.0;
            double intercept = 0.0;
            if (slopes[at] != 0.0 || intercepts[at] != 0.0) {
                for (uint32_t unit = 0; unit < width; ++unit) {
                    const double w = __ldg(weight + static_cast<uint64_t>(unit) * inputs + v);
                    slope += d_slopes[piece * width + unit] * w;
                    intercept += d_intercepts[piece * width + unit] * w;
                }
            }
            row_slopes[at] = slope;
            row_intercepts[at] = intercept;
        }
        __syncthreads();
        // On a piece of its inputs a layer is one affine map, whatever its own units cut the piece into.
        const uint32_t* parents = compiled.parents + (static_cast<uint64_t>(c) * compiled.layers + l) * room;
        const uint32_t outer = compiled.counts[c * compiled.layers + l - 1];
        for (uint32_t at = threadIdx.x; at < outer * inputs; at += COMPILE_THREADS) {
            const uint32_t parent = at / inputs;
            const uint32_t v = at % inputs;
            uint32_t piece = 0;
            for (uint32_t count = pieces; count > 0;) { // the first whose parent is this one or a later one
                const uint32_t half = count / 2;
                if (parents[piece + half] < parent) {
                    piece += half + 1;
                    count -= half + 1;
                } else {
                    count = half;
                }
            }
            double slope = 0.0;
            double intercept = 0.0;
            for (; piece < pieces && parents[piece] == parent; ++piece) {
                slope += row_slopes[static_cast<uint64_t>(piece) * inputs + v];
                intercept += row_intercepts[static_cast<uint64_t>(piece) * inputs + v];
            }
            d_slopes[at] = slope;
            d_intercepts[at] = intercept;
        }
        __syncthreads();
    }
}
