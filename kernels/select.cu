// A batch put together on the device from the graphs of a dataset, which are all there: their numbers say everything.
//
// Graph b of the batch is graph g = graphs[b] of the dataset. Its nodes follow those of the graphs before it, in their order, and
// so do entries of the walk and non-zeros of X: what the host would have copied, bit by bit.
// Shapes    B graphs of n nodes; offsets B + 1. An entry of X has its place among the entries of its column: those of column k in
//           graph b begin at firsts[k,b] in the dataset and at places[k,b] in the batch, d x B.
// Threads   select_graphs: a block per kind of offset; select_segments: one block; the others one per element. Words of nodes
//           and graphs (X, weights, degrees, targets) are gathered by read_rows.
// Bytes     what is gathered, once; offsets are looked up in a cache. Deterministic: numbers are copied, integers added.

#include "math.cuh"

// The last of `count` stretches that begins at or before `at`; offsets increase from 0.
__device__ __forceinline__ uint32_t stretch_of(const uint64_t* offsets, uint32_t count, uint64_t at) {
    uint32_t low = 0;
    uint32_t high = count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (__ldg(offsets + middle) <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// How many of the places from `first` to `end` hold a row below `row`, behind `first`.
__device__ __forceinline__ uint64_t place_of(const uint32_t* rows, uint64_t first, uint64_t end, uint64_t row) {
    while (first < end) {
        const uint64_t middle = first + (end - first) / 2;
        if (__ldg(rows + middle) < row) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

// Sum of the values of the threads before this one; `shared` has one for each. All threads of a block take part.
__device__ __forceinline__ uint64_t sum_before(uint64_t* shared, uint64_t value) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (uint32_t step = 1; step < blockDim.x; step *= 2) {
        const uint64_t before = threadIdx.x >= step ? shared[threadIdx.x - step] : 0;
        __syncthreads();
        shared[threadIdx.x] += before;
        __syncthreads();
    }
    const uint64_t sum = shared[threadIdx.x] - value;
    __syncthreads();
    return sum;
}

// Where the nodes, the entries of the walk and the non-zeros of X of each graph of the batch begin. Grid: the three of them.
KERNEL(select_graphs, SelectGraphs) {
    __shared__ uint64_t sums[HARMONIA_SELECT_THREADS];
    uint64_t* offsets = args.offsets[blockIdx.x];
    const uint64_t* row_ptr = args.row_ptr[blockIdx.x];
    if (offsets == nullptr) {
        return; // the whole block
    }
    const uint32_t stretch = (args.count + blockDim.x - 1) / blockDim.x;
    const uint32_t first = smaller(threadIdx.x * stretch, args.count);
    const uint32_t last = smaller(first + stretch, args.count);
    uint64_t sum = 0;
    for (uint32_t b = first; b < last; ++b) {
        const uint64_t begin = args.graph_ptr[args.graphs[b]];
        const uint64_t end = args.graph_ptr[args.graphs[b] + 1];
        sum += row_ptr ? row_ptr[end] - row_ptr[begin] : end - begin;
    }
    uint64_t offset = sum_before(sums, sum);
    for (uint32_t b = first; b < last; ++b) {
        const uint64_t begin = args.graph_ptr[args.graphs[b]];
        const uint64_t end = args.graph_ptr[args.graphs[b] + 1];
        offsets[b] = offset;
        offset += row_ptr ? row_ptr[end] - row_ptr[begin] : end - begin;
    }
    if (threadIdx.x == blockDim.x - 1) {
        offsets[args.count] = offset;
    }
}

// The node of the dataset, and the graph of the batch, of each node of the batch.
KERNEL(select_nodes, SelectNodes) {
    const Selected& batch = args.batch;
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < batch.nodes) {
        const uint32_t b = stretch_of(batch.graph_ptr, batch.count, i);
        args.sources[i] = static_cast<uint32_t>(batch.all_graph_ptr[batch.graphs[b]] + (i - batch.graph_ptr[b]));
        args.graph_of[i] = b;
    }
}

// Where row i of the batch begins, of rows that begin at row_ptr in the dataset and whose graphs begin at `offsets` in the batch.
__device__ __forceinline__ uint64_t row_begin(
    const Selected& batch, const uint64_t* offsets, const uint64_t* row_ptr, const uint32_t* sources,
    const uint32_t* graph_of, uint64_t i) {
    if (i == batch.nodes) {
        return offsets[batch.count];
    }
    const uint32_t b = graph_of[i];
    return offsets[b] + (row_ptr[sources[i]] - row_ptr[batch.all_graph_ptr[batch.graphs[b]]]);
}

// The walk matrix, or its transpose. One thread per row, its end, and entry.
KERNEL(select_entries, SelectEntries) {
    const Selected& batch = args.batch;
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at <= batch.nodes) {
        args.row_ptr[at] = row_begin(batch, args.offsets, args.all_row_ptr, args.sources, args.graph_of, at);
    }
    if (at < args.entries) {
        const uint32_t b = stretch_of(args.offsets, batch.count, at);
        const uint64_t first_node = batch.all_graph_ptr[batch.graphs[b]];
        const uint64_t from = args.all_row_ptr[first_node] + (at - args.offsets[b]);
        args.col_idx[at] = static_cast<uint32_t>(args.all_col_idx[from] - first_node + batch.graph_ptr[b]);
        if (args.weights) {
            args.weights[at] = args.all_weights[from];
        }
    }
}

// First place in the dataset, and number, of the non-zeros of each column in each graph. One thread per pair.
KERNEL(select_columns, SelectColumns) {
    const Selected& batch = args.batch;
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < static_cast<uint64_t>(args.features) * batch.count) {
        const uint64_t k = at / batch.count;
        const uint32_t g = batch.graphs[at % batch.count];
        const uint64_t end = args.all_column_ptr[k + 1];
        const uint64_t first = place_of(args.all_rows, args.all_column_ptr[k], end, batch.all_graph_ptr[g]);
        args.firsts[at] = static_cast<uint32_t>(first);
        args.places[at] = static_cast<uint32_t>(place_of(args.all_rows, first, end, batch.all_graph_ptr[g + 1]) - first);
    }
}

// Counts turn into places; columns and their segments follow. There is room for as many segments as columns could need: those
// that are left are empty. One block.
KERNEL(select_segments, SelectColumns) {
    __shared__ uint64_t sums[HARMONIA_SELECT_THREADS];
    const uint32_t count = args.batch.count;
    const uint32_t d = args.features;
    const uint32_t stretch = (d + blockDim.x - 1) / blockDim.x;
    const uint32_t first = smaller(threadIdx.x * stretch, d);
    const uint32_t last = smaller(first + stretch, d);
    uint64_t sum = 0;
    for (uint64_t at = static_cast<uint64_t>(first) * count; at < static_cast<uint64_t>(last) * count; ++at) {
        sum += args.places[at];
    }
    uint64_t place = sum_before(sums, sum);
    uint64_t segments = 0;
    for (uint32_t k = first; k < last; ++k) {
        const uint64_t begin = place;
        args.column_ptr[k] = place;
        for (uint64_t at = static_cast<uint64_t>(k) * count; at < (static_cast<uint64_t>(k) + 1) * count; ++at) {
            const uint32_t length = args.places[at];
            args.places[at] = static_cast<uint32_t>(place);
            place += length;
        }
        segments += place > begin ? (place - begin + HARMONIA_LONG_ROW - 1) / HARMONIA_LONG_ROW : 1;
    }
    uint32_t segment = static_cast<uint32_t>(sum_before(sums, segments));
    // A column ends where the next begins, which another thread may have written.
    uint64_t end = place;
    for (uint32_t k = first; k < last; ++k) {
        const uint64_t column_end = k + 1 < last ? args.column_ptr[k + 1] : end;
        args.first_segment[k] = segment;
        uint64_t begin = args.column_ptr[k];
        do {
            args.segment_begin[segment] = begin;
            args.segment_end[segment] = smaller(begin + HARMONIA_LONG_ROW, column_end);
            args.segment_column[segment] = k;
            begin += HARMONIA_LONG_ROW;
            ++segment;
        } while (begin < column_end);
    }
    if (threadIdx.x == blockDim.x - 1) {
        args.column_ptr[d] = place;
        args.first_segment[d] = segment;
        sums[0] = segment;
    }
    __syncthreads();
    for (uint32_t empty = static_cast<uint32_t>(sums[0]) + threadIdx.x; empty < args.segments; empty += blockDim.x) {
        args.segment_begin[empty] = 0;
        args.segment_end[empty] = 0;
        args.segment_column[empty] = d - 1;
    }
}

// Non-zeros of X, by rows and by columns. One thread per row, its end, and non-zero.
KERNEL(select_nonzeros, SelectNonzeros) {
    const Selected& batch = args.batch;
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at <= batch.nodes) {
        args.row_ptr[at] = row_begin(batch, args.offsets, args.all_row_ptr, args.sources, args.graph_of, at);
    }
    if (at < args.nonzeros) {
        const uint32_t b = stretch_of(args.offsets, batch.count, at);
        const uint64_t first_node = batch.all_graph_ptr[batch.graphs[b]];
        const uint64_t from = args.all_row_ptr[first_node] + (at - args.offsets[b]);
        const uint32_t k = args.all_col_idx[from];
        const uint32_t all_place = args.all_places[from];
        const uint64_t pair = static_cast<uint64_t>(k) * batch.count + b;
        const uint32_t place = args.starts[pair] + (all_place - args.firsts[pair]);
        args.col_idx[at] = k;
        args.places[at] = place;
        args.rows[place] = static_cast<uint32_t>(args.all_rows[all_place] - first_node + batch.graph_ptr[b]);
        args.values[place] = args.all_values[all_place];
    }
}
