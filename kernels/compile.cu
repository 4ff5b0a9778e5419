// Experts compiled to pieces, and gradients of experts from sums over pieces: src/knots, on the device.
//
// A ReLU network of one number x is affine wherever no unit switches. On a piece of the layers before, every unit is
// s x + r; where it switches inside the piece it cuts the piece in two. f_k(x) = sum_s gate_s a_k . psi_s(x) is a line on
// every piece that the thresholds of its experts make together.
// Backward  with G1 = sum of g x and G0 = sum of g over the points of a piece, gradients of gates and coefficients are sums over
//           pieces; those of lines go back through the layers as through a linear network.
// Shapes    thresholds C x room, lines C x room x B; of features d x most and d x stride x 2; sums stride x 2 x d
// Threads   knots_experts, knots_experts_backward: a block per expert; knots_lines, knots_gates: a warp per feature;
//           knots_parts: a block per expert and stretch of features, a thread per (piece, basis).
// Bytes     parameters of experts, tables and sums once, some hundred kilobytes: they stay in the cache.
// Deterministic: every number belongs to one thread. Lines of experts are doubles and take the CPU's operations in its
// order, so that thresholds are the same bits. An expert with more than `room` pieces is given up: one piece, a zero line.

#include "warp.cuh"

constexpr float LARGEST = 3.402823466e+38f;
constexpr uint32_t COMPILE_THREADS = 128;

__device__ __forceinline__ float infinity() {
    return __uint_as_float(0x7f800000u);
}

// The largest float below x; infinitely small and NaN stay what they are.
__device__ __forceinline__ float next_down(float x) {
    const uint32_t bits = __float_as_uint(x);
    const uint32_t size = bits & 0x7fffffffu;
    if (x != x || bits == 0xff800000u) {
        return x;
    }
    return __uint_as_float(size == 0 ? 0x80000001u : bits == size ? bits - 1 : bits + 1);
}

// The number up to which (inclusive) a unit keeps the state it comes with from minus infinity: see `threshold` in
// src/knots/pieces.rs.
__device__ __forceinline__ float unit_threshold(double slope, double intercept) {
    const float root = static_cast<float>(-intercept / slope);
    const bool on = fma(slope, static_cast<double>(root), intercept) > 0.0;
    const float last = on == (slope < 0.0) ? root : next_down(root);
    return last + 0.0f; // one zero only
}

// A unit before ReLU, of inputs that are lines. Products are rounded before they are added, as on the CPU.
__device__ __forceinline__ void affine(
    double& slope, double& intercept, const float* weight, float bias, const double* slopes, const double* intercepts,
    uint32_t inputs) {
    slope = 0.0;
    intercept = bias;
    for (uint32_t v = 0; v < inputs; ++v) {
        const double s = slopes[v];
        const double r = intercepts[v];
        if (s != 0.0 || r != 0.0) {
            const double w = __ldg(weight + v);
            slope = __dadd_rn(slope, __dmul_rn(w, s));
            intercept = __dadd_rn(intercept, __dmul_rn(w, r));
        }
    }
}

// How many of the sorted values are below x, or with OR_EQUAL not above it.
template <bool OR_EQUAL>
__device__ __forceinline__ uint32_t count_below(const float* values, uint32_t count, float x) {
    uint32_t low = 0;
    while (count > 0) {
        const uint32_t half = count / 2;
        const float value = values[low + half];
        if (value < x || (OR_EQUAL && value == x)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

// Pieces of an expert.
__device__ __forceinline__ uint32_t pieces_of(const Compiled& compiled, uint32_t c) {
    return compiled.counts[c * compiled.layers + compiled.layers - 1];
}

// An expert without room: level after level one piece, with nothing on.
__device__ void give_up(const Compiled& compiled, uint32_t c, uint32_t from, uint32_t needed) {
    uint64_t first_unit = 0;
    for (uint32_t l = 0; l < compiled.layers; ++l) {
        const uint32_t width = compiled.widths[l];
        const uint64_t level = (static_cast<uint64_t>(c) * compiled.units + first_unit) * compiled.room;
        for (uint32_t u = threadIdx.x; l >= from && u < width; u += blockDim.x) {
            compiled.level_slopes[level + u] = 0.0;
            compiled.level_intercepts[level + u] = 0.0;
        }
        if (l >= from && threadIdx.x == 0) {
            compiled.parents[(static_cast<uint64_t>(c) * compiled.layers + l) * compiled.room] = 0;
        }
        if (threadIdx.x == 0) {
            compiled.counts[c * compiled.layers + l] = 1;
        }
        first_unit += width;
    }
    const uint64_t lines = static_cast<uint64_t>(c) * compiled.room * compiled.bases;
    for (uint32_t b = threadIdx.x; b < compiled.bases; b += blockDim.x) {
        compiled.slopes[lines + b] = 0.0;
        compiled.intercepts[lines + b] = 0.0;
    }
    if (threadIdx.x == 0) {
        compiled.needed[c] = needed;
    }
}

// Block 128; grid: experts.
KERNEL(knots_experts, KnotsExperts) {
    __shared__ uint32_t total;
    const Compiled& compiled = args.compiled;
    const uint32_t c = blockIdx.x;
    const uint32_t room = compiled.room;
    const uint32_t lane = threadIdx.x % LANES;
    const uint64_t work = static_cast<uint64_t>(c) * room * compiled.widest;
    double* unit_slopes = args.unit_slopes + work;
    double* unit_intercepts = args.unit_intercepts + work;
    float* unit_ends = args.unit_ends + work;
    uint32_t* unit_on = args.unit_on + work;
    uint32_t* leads = args.unit_ranks + 2 * work;
    uint32_t* ranks = leads + static_cast<uint64_t>(room) * compiled.widest;
    float* ends = args.ends + static_cast<uint64_t>(c) * 3 * room;
    float* next_ends = ends + room;
    float* part_ends = next_ends + room;
    uint32_t* first_part = args.parts + static_cast<uint64_t>(c) * 4 * room;
    uint32_t* part_piece = first_part + room;
    uint32_t* part_idle = part_piece + room;
    uint32_t* part_place = part_idle + room;
    const float* weight = compiled.parameters + c * compiled.expert_size;
    double* slopes = compiled.level_slopes + static_cast<uint64_t>(c) * compiled.units * room;
    double* intercepts = compiled.level_intercepts + static_cast<uint64_t>(c) * compiled.units * room;
    uint32_t* parents = compiled.parents + static_cast<uint64_t>(c) * compiled.layers * room;
    uint32_t* counts = compiled.counts + c * compiled.layers;
    if (threadIdx.x == 0) {
        ends[0] = LARGEST;
        slopes[0] = 1.0;
        intercepts[0] = 0.0;
        parents[0] = 0;
        counts[0] = 1;
    }
    __syncthreads();
    uint32_t pieces = 1;
    for (uint32_t l = 0; l + 1 < compiled.layers; ++l) {
        const uint32_t inputs = compiled.widths[l];
        const uint32_t width = compiled.widths[l + 1];
        const float* bias = weight + static_cast<uint64_t>(width) * inputs;
        // Every unit on every piece: its line, whether it begins on, and where it switches.
        for (uint32_t at = threadIdx.x; at < pieces * width; at += COMPILE_THREADS) {
            const uint32_t piece = at / width;
            const uint32_t unit = at % width;
            double slope, intercept;
            affine(slope, intercept, weight + static_cast<uint64_t>(unit) * inputs, bias[unit],
                   slopes + static_cast<uint64_t>(piece) * inputs, intercepts + static_cast<uint64_t>(piece) * inputs, inputs);
            unit_slopes[at] = slope;
            unit_intercepts[at] = intercept;
            const float start = piece == 0 ? -infinity() : ends[piece - 1];
            bool on = intercept > 0.0;
            float end = infinity();
            if (slope != 0.0) {
                const float threshold = unit_threshold(slope, intercept);
                on = slope < 0.0 ? threshold > start : threshold <= start;
                end = start < threshold && threshold < ends[piece] ? threshold : infinity();
            }
            unit_on[at] = on;
            unit_ends[at] = end;
        }
        __syncthreads();
        // Units that switch at the same place count once: the first of them leads.
        for (uint32_t at = threadIdx.x; at < pieces * width; at += COMPILE_THREADS) {
            const float end = unit_ends[at];
            bool leading = end != infinity();
            for (uint32_t other = at - at % width; other < at; ++other) {
                leading = leading && unit_ends[other] != end;
            }
            leads[at] = leading;
        }
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < pieces * width; at += COMPILE_THREADS) {
            uint32_t rank = 0;
            const uint32_t first = at - at % width;
            for (uint32_t other = first; other < first + width; ++other) {
                rank += leads[other] && unit_ends[other] < unit_ends[at];
            }
            ranks[at] = rank;
        }
        // A piece has one part more than places where units switch.
        if (threadIdx.x < LANES) {
            uint32_t carry = 0;
            for (uint32_t base = 0; base < pieces; base += LANES) {
                const uint32_t piece = base + lane;
                uint32_t parts = 0;
                if (piece < pieces) {
                    parts = 1;
                    for (uint32_t unit = 0; unit < width; ++unit) {
                        parts += leads[piece * width + unit];
                    }
                }
                uint32_t sum = parts;
#pragma unroll
                for (int offset = 1; offset < LANES; offset *= 2) {
                    const uint32_t below = __shfl_up_sync(FULL_WARP, sum, offset);
                    sum += lane >= static_cast<uint32_t>(offset) ? below : 0;
                }
                if (piece < pieces) {
                    first_part[piece] = carry + sum - parts;
                }
                carry += __shfl_sync(FULL_WARP, sum, LANES - 1);
            }
            if (lane == 0) {
                total = carry;
            }
        }
        __syncthreads();
        const uint32_t parts = total;
        if (parts > room) {
            give_up(compiled, c, l + 1, parts);
            return; // the whole block
        }
        for (uint32_t part = threadIdx.x; part < parts; part += COMPILE_THREADS) {
            uint32_t piece = 0;
            for (uint32_t count = pieces; count > 1;) { // the last piece that begins here or before
                const uint32_t half = count / 2;
                if (first_part[piece + half] <= part) {
                    piece += half;
                    count -= half;
                } else {
                    count = half;
                }
            }
            const uint32_t rank = part - first_part[piece];
            bool idle = true;
            float end = ends[piece];
            for (uint32_t at = piece * width; at < (piece + 1) * width; ++at) {
                const bool switched = unit_ends[at] != infinity() && ranks[at] < rank;
                idle = idle && (unit_on[at] != 0) == switched;
                if (leads[at] && ranks[at] == rank) {
                    end = unit_ends[at];
                }
            }
            part_piece[part] = piece;
            part_idle[part] = idle;
            part_ends[part] = end;
        }
        __syncthreads();
        // Parts in a row on which nothing is on are one: later layers see zeros on all of them.
        if (threadIdx.x < LANES) {
            uint32_t carry = 0;
            for (uint32_t base = 0; base < parts; base += LANES) {
                const uint32_t part = base + lane;
                const bool kept = part < parts && !(part > 0 && part_idle[part] && part_idle[part - 1]);
                const uint32_t all = __ballot_sync(FULL_WARP, kept);
                const uint32_t upto = lane == LANES - 1 ? all : all & ((2u << lane) - 1);
                if (part < parts) {
                    part_place[part] = carry + __popc(upto) - 1;
                }
                carry += __popc(all);
            }
            if (lane == 0) {
                total = carry;
            }
        }
        __syncthreads();
        const double* from_slopes = unit_slopes;
        const double* from_intercepts = unit_intercepts;
        slopes += static_cast<uint64_t>(inputs) * room;
        intercepts += static_cast<uint64_t>(inputs) * room;
        parents += room;
        for (uint32_t part = threadIdx.x; part < parts; part += COMPILE_THREADS) {
            const uint32_t place = part_place[part];
            if (part == 0 || part_place[part - 1] != place) {
                parents[place] = part_piece[part];
            }
            if (part + 1 == parts || part_place[part + 1] != place) {
                next_ends[place] = part_ends[part];
            }
        }
        for (uint32_t at = threadIdx.x; at < parts * width; at += COMPILE_THREADS) {
            const uint32_t part = at / width;
            const uint32_t place = part_place[part];
            if (part > 0 && part_place[part - 1] == place) {
                continue;
            }
            const uint32_t piece = part_piece[part];
            const uint32_t from = piece * width + at % width;
            const bool switched = unit_ends[from] != infinity() && ranks[from] < part - first_part[piece];
            const bool on = (unit_on[from] != 0) != switched;
            const uint64_t to = static_cast<uint64_t>(place) * width + at % width;
            slopes[to] = on ? from_slopes[from] : 0.0;
            intercepts[to] = on ? from_intercepts[from] : 0.0;
        }
        pieces = total;
        if (threadIdx.x == 0) {
            counts[l + 1] = pieces;
        }
        float* other = ends;
        ends = next_ends;
        next_ends = other;
        weight = bias + width;
        __syncthreads();
    }
    const uint32_t inputs = compiled.widths[compiled.layers - 1];
    const float* bias = weight + static_cast<uint64_t>(compiled.bases) * inputs;
    for (uint32_t at = threadIdx.x; at < pieces * compiled.bases; at += COMPILE_THREADS) {
        const uint32_t piece = at / compiled.bases;
        const uint32_t b = at % compiled.bases;
        double slope, intercept;
        affine(slope, intercept, weight + static_cast<uint64_t>(b) * inputs, bias[b],
               slopes + static_cast<uint64_t>(piece) * inputs, intercepts + static_cast<uint64_t>(piece) * inputs, inputs);
        const uint64_t to = static_cast<uint64_t>(c) * room * compiled.bases + at;
        compiled.slopes[to] = slope;
        compiled.intercepts[to] = intercept;
    }
    for (uint32_t at = threadIdx.x; at + 1 < pieces; at += COMPILE_THREADS) {
        compiled.thresholds[static_cast<uint64_t>(c) * room + at] = ends[at];
    }
    if (threadIdx.x == 0) {
        compiled.needed[c] = pieces;
    }
}

// Block 32 x 8; grid: features.
KERNEL(knots_lines, KnotsLines) {
    const Compiled& compiled = args.compiled;
    const uint32_t lane = threadIdx.x;
    const uint32_t room = compiled.room;
    const uint32_t bases = compiled.bases;
    const uint32_t k = blockIdx.x * blockDim.y + threadIdx.y;
    if (k == 0 && lane == 0) {
        uint32_t most = 0;
        for (uint32_t c = 0; c < compiled.expert_count; ++c) {
            most = compiled.needed[c] > most ? compiled.needed[c] : most;
        }
        args.verdict->pieces = most;
        args.verdict->halted |= most > room ? HARMONIA_HALT_ROOM : 0;
    }
    if (k >= args.features) {
        return; // the whole warp; there is no block barrier
    }
    const uint32_t* experts = args.experts + static_cast<uint64_t>(k) * args.active;
    const float* gates = args.gates + static_cast<uint64_t>(k) * args.active;
    const float* coefficients = args.coefficients + static_cast<uint64_t>(k) * bases;
    float* folded = args.folded + static_cast<uint64_t>(k) * args.active * 2 * room;
    float* sorted = args.sorted + static_cast<uint64_t>(k) * args.stride;
    uint32_t length = 0;
    for (uint32_t slot = 0; slot < args.active; ++slot) {
        const uint32_t c = experts[slot];
        const uint32_t pieces = pieces_of(compiled, c);
        const float* own = compiled.thresholds + static_cast<uint64_t>(c) * room;
        for (uint32_t piece = lane; piece < pieces; piece += LANES) {
            const uint64_t at = (static_cast<uint64_t>(c) * room + piece) * bases;
            float slope = 0.0f;
            float intercept = 0.0f;
            for (uint32_t b = 0; b < bases; ++b) {
                const float a = __ldg(coefficients + b);
                slope = fmaf(a, static_cast<float>(compiled.slopes[at + b]), slope);
                intercept = fmaf(a, static_cast<float>(compiled.intercepts[at + b]), intercept);
            }
            folded[static_cast<uint64_t>(2 * slot) * room + piece] = slope;
            folded[static_cast<uint64_t>(2 * slot + 1) * room + piece] = intercept;
        }
        // A threshold's place among those of all slots; equal ones in the order of slots.
        for (uint32_t at = lane; at + 1 < pieces; at += LANES) {
            const float threshold = own[at];
            uint32_t place = at;
            for (uint32_t other = 0; other < args.active; ++other) {
                const uint32_t count = pieces_of(compiled, experts[other]) - 1;
                const float* values = compiled.thresholds + static_cast<uint64_t>(experts[other]) * room;
                if (other < slot) {
                    place += count_below<true>(values, count, threshold);
                } else if (other > slot) {
                    place += count_below<false>(values, count, threshold);
                }
            }
            sorted[place] = threshold;
        }
        length += pieces - 1;
    }
    __syncwarp();
    float* thresholds = args.thresholds + static_cast<uint64_t>(k) * args.most;
    uint32_t count = 0; // thresholds, each once
    for (uint32_t base = 0; base < length; base += LANES) {
        const uint32_t at = base + lane;
        const bool first = at < length && (at == 0 || sorted[at - 1] != sorted[at]);
        const uint32_t all = __ballot_sync(FULL_WARP, first);
        if (first) {
            thresholds[count + __popc(all & ((1u << lane) - 1))] = sorted[at];
        }
        count += __popc(all);
    }
    uint32_t padded = 1;
    while (padded < count + 1) {
        padded *= 2;
    }
    for (uint32_t at = count + lane; at + 1 < padded; at += LANES) {
        thresholds[at] = infinity();
    }
    if (lane == 0) {
        args.threshold_count[k] = padded - 1;
        args.piece_count[k] = count + 1;
    }
    __syncwarp();
    float* lines = args.lines + static_cast<uint64_t>(k) * args.stride * 2;
    for (uint32_t piece = lane; piece <= count; piece += LANES) {
        float slope = 0.0f;
        float intercept = 0.0f;
        for (uint32_t slot = 0; slot < args.active; ++slot) {
            const uint32_t c = experts[slot];
            const float* own = compiled.thresholds + static_cast<uint64_t>(c) * room;
            const uint32_t below =
                piece == 0 ? 0 : count_below<true>(own, pieces_of(compiled, c) - 1, thresholds[piece - 1]);
            const float* from = folded + static_cast<uint64_t>(2 * slot) * room + below;
            slope = __fadd_rn(slope, __fmul_rn(gates[slot], from[0]));
            intercept = __fadd_rn(intercept, __fmul_rn(gates[slot], from[room]));
        }
        lines[2 * piece] = slope;
        lines[2 * piece + 1] = intercept;
    }
}

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
