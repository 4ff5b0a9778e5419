// What the outside calls: launches by name, names of kernels, and the memory kernels may use.
#include "checks.h"
#include "engine.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace harmonia_host {

void link_kernels();

namespace {

constexpr unsigned SHARED_LIMIT = 99 * 1024;

Kernel* kernels = nullptr; // set before main, by constructors
std::mutex one_launch_at_a_time;

const Kernel* find_kernel(const char* name) {
    link_kernels();
    const Kernel* kernel = kernels;
    while (kernel != nullptr && strcmp(kernel->name, name) != 0) {
        kernel = kernel->next;
    }
    return kernel;
}

// What a GPU refuses, said as clearly; null where all is well.
const char* refusal(const Kernel& kernel, const uint32_t blocks[3], const uint32_t threads[3], uint32_t shared_bytes) {
    const uint64_t product = uint64_t(threads[0]) * threads[1];
    if (blocks[0] == 0 || blocks[1] == 0 || blocks[2] == 0 || threads[0] == 0 || threads[1] == 0 || threads[2] == 0) {
        return "every size of grid and block must be at least 1";
    }
    if (threads[2] > 64) {
        return "a block has at most 64 threads in z";
    }
    if (product > MAX_THREADS || product * threads[2] > MAX_THREADS) {
        return "a block has at most 1024 threads";
    }
    if (product * threads[2] > kernel.most_threads) {
        return "a block has more threads than the kernel was compiled for (__launch_bounds__)";
    }
    if (blocks[0] > 0x7fffffffu || blocks[1] > 65535 || blocks[2] > 65535) {
        return "a grid has at most 2147483647 x 65535 x 65535 blocks";
    }
    if (shared_bytes > SHARED_LIMIT) {
        return "a block has at most 101376 bytes of dynamic shared memory";
    }
    return nullptr;
}

} // namespace

Kernel::Kernel(const char* name, size_t argument_size, unsigned most_threads, void (*run)(const void*))
    : name(name), argument_size(argument_size), most_threads(most_threads), run(run), next(kernels) {
    kernels = this;
}

} // namespace harmonia_host

using namespace harmonia_host;

// Runs a kernel to its end. 0, or 1 and a message. `order` 0 runs threads in natural order, other values in a random
// order of their own. `last_blocks` other than 0 runs only so many at the end of each dimension of the grid.
EXPORTED int harmonia_host_launch(const char* kernel, const uint32_t blocks[3], const uint32_t threads[3],
                                  uint32_t shared_bytes, const void* arguments, uint64_t order, uint32_t last_blocks,
                                  char* message, size_t message_size) {
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    const Kernel* found = find_kernel(kernel);
    const char* reason = found == nullptr ? "no such kernel" : refusal(*found, blocks, threads, shared_bytes);
    if (reason != nullptr) {
        snprintf(message, message_size, "kernel `%s`, grid (%u, %u, %u), block (%u, %u, %u), %u bytes: %s", kernel,
                 blocks[0], blocks[1], blocks[2], threads[0], threads[1], threads[2], shared_bytes, reason);
        return 1;
    }
    static Launch* state = new Launch; // large, and none of the kernels' memory
    launch = state;
    // Blocks of their own and of exactly this size, so that the address sanitizer sees where they end.
    const std::unique_ptr<void, void (*)(void*)> copy(aligned_alloc(16, (found->argument_size + 15) / 16 * 16), free);
    const std::unique_ptr<void, void (*)(void*)> shared(malloc(shared_bytes), free);
    if (copy == nullptr || (shared == nullptr && shared_bytes > 0)) {
        snprintf(message, message_size, "kernel `%s`: no memory for %u bytes of shared memory", kernel, shared_bytes);
        launch = nullptr;
        return 1;
    }
    memcpy(copy.get(), arguments, found->argument_size);
    launch->kernel = found;
    launch->arguments = copy.get();
    launch->shared_bytes = shared_bytes;
    launch->shared = static_cast<unsigned char*>(shared.get());
    launch->order = order;
    launch->scheduler = Context();
    launch->failed = false;
    launch->message = message;
    launch->message_size = message_size;
    lay_out_block(threads);
    run_grid(blocks, last_blocks);
    const bool failed = launch->failed;
    launch = nullptr;
    return failed ? 1 : 0;
}

// Name of a kernel; null behind the last one.
EXPORTED const char* harmonia_host_kernel(size_t number) {
    link_kernels();
    const Kernel* kernel = kernels;
    while (kernel != nullptr && number > 0) {
        kernel = kernel->next;
        number -= 1;
    }
    return kernel != nullptr ? kernel->name : nullptr;
}

// Kernels may use this memory from now on.
EXPORTED void harmonia_host_allocated(const void* address, size_t size) {
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    checks::allocated(address, size);
}

// They no longer may.
EXPORTED void harmonia_host_freed(const void* address) {
    const std::lock_guard<std::mutex> lock(one_launch_at_a_time);
    checks::freed(address);
}
