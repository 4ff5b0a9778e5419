// Experts compiled to pieces: src/knots, on the device. Gradients are in differentiate.cu.
//
// A ReLU network of one number x is affine wherever no unit switches. On a piece of the layers before, every unit is
// s x + r; where it switches inside the piece it cuts the piece in two. f_k(x) = sum_s gate_s a_k . psi_s(x) is a line on
// every piece that the thresholds of its experts make together.
// Shapes    thresholds C x room, lines C x room x B; of features d x most and d x stride x 2
// Threads   knots_experts: a block per expert; knots_lines: a warp per feature.
// Bytes     parameters of experts and tables once, some hundred kilobytes: they stay in the cache.
// Deterministic: every number belongs to one thread. Lines of experts are doubles and take the CPU's operations in its
// order, so that thresholds are the same bits. An expert with more than `room` pieces is given up: one piece, a zero line.

#include "compile.cuh"

constexpr float LARGEST = 3.402823466e+38f;

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
