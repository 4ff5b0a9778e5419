// Instructions that hot kernels execute for an element, counted by an emulator of GPUs (HARMONIA_PTX_EMULATOR; docs/gpu.md):
//
//   .cuda/bin/nvcc -ptx -std=c++17 -arch compute_89 -o all.ptx KERNELS/all.cu
//   g++ -std=c++17 -I KERNELS -I .cuda/packages/nvidia/cu13/include -o count scripts/ptx_count.cpp -L EMULATOR -lcuda
//   LD_LIBRARY_PATH=EMULATOR PTXEMU_SUMMARY=/dev/stdout ./count all.ptx
//
// Elements are of X where pieces are looked up (4,096 rows of 96 features, 63 thresholds, nothing dropped), and of gathered states
// where walks step (2,048 rows of 64 entries, 48 columns). -DFIRST: of the kernels as they first were, before experts were
// compiled on the device, whose arguments differ.
#include "abi.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

static void must(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(result));
        std::exit(1);
    }
}

static CUmodule kernels;
static CUstream stream;

template <typename T>
static T* on_device(const std::vector<T>& values) {
    CUdeviceptr address;
    must(cuMemAlloc(&address, values.size() * sizeof(T)), "allocate");
    must(cuMemcpyHtoDAsync(address, values.data(), values.size() * sizeof(T), stream), "copy");
    must(cuStreamSynchronize(stream), "copy");
    return reinterpret_cast<T*>(address);
}

template <typename Args>
static void launch(const char* name, unsigned x, unsigned y, unsigned threads_x, unsigned threads_y, unsigned shared, Args args) {
    CUfunction function;
    must(cuModuleGetFunction(&function, kernels, name), name);
    must(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared)), name);
    void* arguments[] = {&args};
    must(cuLaunchKernel(function, x, y, 1, threads_x, threads_y, 1, shared, stream, arguments, nullptr), name);
    must(cuStreamSynchronize(stream), name);
}

int main(int, char** argv) {
    must(cuInit(0), "driver");
    CUdevice device;
    CUcontext context;
    must(cuDeviceGet(&device, 0), "device");
    must(cuDevicePrimaryCtxRetain(&context, device), "context");
    must(cuCtxSetCurrent(context), "context");
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    std::ifstream file(argv[1]);
    const std::string ptx{std::istreambuf_iterator<char>(file), {}};
    must(cuModuleLoadData(&kernels, ptx.c_str()), argv[1]);

    constexpr uint32_t rows = 4096, d = 96, thresholds = 63, pieces = 64;
    std::vector<float> x(rows * d), lines(d * pieces * 2), bounds(d * thresholds);
    for (size_t at = 0; at < x.size(); ++at) {
        x[at] = static_cast<float>(at * 7919 % 64000) / 1000.0f;
    }
    for (size_t at = 0; at < bounds.size(); ++at) {
        bounds[at] = static_cast<float>(at % thresholds) + 0.5f;
    }
    Knots knots;
    std::memset(&knots, 0, sizeof knots);
    knots.thresholds = on_device(bounds);
    knots.threshold_count = on_device(std::vector<uint32_t>(d, thresholds));
    knots.lines = on_device(lines);
    knots.features = d;
    knots.stride = pieces;
    knots.most_thresholds = thresholds;
    knots.lanes = 32;
    knots.in_shared = 1;
#ifdef FIRST
    std::vector<uint32_t> first(d);
    for (uint32_t k = 0; k < d; ++k) {
        first[k] = k * thresholds;
    }
    knots.first_threshold = on_device(first);
#else
    knots.piece_count = on_device(std::vector<uint32_t>(d, pieces));
#endif
    KnotsForward forward;
    std::memset(&forward, 0, sizeof forward);
    forward.responses = on_device(x);
    forward.features = on_device(x);
    forward.nodes = rows;
    forward.block_rows = 1024;
    forward.knots = knots;
    launch("knots_forward", d / 32, 4, 32, 8, (thresholds + 2 * pieces) * 32 * 4, forward);

    KnotsBackward backward;
    std::memset(&backward, 0, sizeof backward);
    backward.sums = on_device(std::vector<float>(8 * pieces * 2 * d));
    backward.d_responses = on_device(x);
    backward.features = forward.features;
    backward.nodes = rows;
    backward.knots = knots;
#ifdef FIRST
    constexpr unsigned warps = 4; // all of a block share a chunk
    backward.chunk_rows = 2048;
    launch("knots_backward", d / 32, 2, 32, warps, (thresholds + warps * 2 * pieces) * 32 * 4, backward);
#else
    constexpr unsigned warps = 2; // each has a chunk of its own
    backward.chunk_rows = 512;
    backward.chunks = 8;
    launch("knots_backward", d / 32, 4, 32, warps, (thresholds + warps * 2 * pieces) * 32 * 4, backward);
#endif

    constexpr uint32_t nodes = 2048, entries = 64, width = 48;
    std::vector<uint64_t> offsets(nodes + 1);
    std::vector<uint32_t> columns(nodes * entries);
    for (uint32_t row = 0; row <= nodes; ++row) {
        offsets[row] = static_cast<uint64_t>(row) * entries;
    }
    for (size_t at = 0; at < columns.size(); ++at) {
        columns[at] = static_cast<uint32_t>(at * 7919 % nodes);
    }
    WalkRows walk;
    std::memset(&walk, 0, sizeof walk);
    walk.next = on_device(std::vector<float>(nodes * width));
    walk.state = on_device(std::vector<float>(nodes * width));
    walk.inverse_degree = on_device(std::vector<float>(nodes, 1.0f));
    walk.begin = on_device(offsets);
    walk.end = walk.begin + 1;
    walk.col_idx = on_device(columns);
    walk.items = nodes;
    walk.block_items = 256;
    walk.columns = width;
    walk.width = width;
    walk.outputs = width;
    walk.group = 16;
    walk.entry_lanes = 1;
    launch("walk_rows4_f32", 1, nodes / 256, 256, 1, 0, walk);
    walk.group = 32;
    launch("walk_rows_f32", 2, nodes / 256, 256, 1, 0, walk);
    std::printf("elements: knots %u, walks %u\n", rows * d, nodes * entries * width);
    return 0;
}
