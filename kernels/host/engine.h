// State of a running launch, shared by the scheduler (engine.cpp) and the checkers (checks.cpp). Kernels never see it.
#pragma once

#include "cuda.h"
#include "fiber.h"

namespace harmonia_host {

constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned WARP = 32;
constexpr unsigned MAX_WARPS = MAX_THREADS / WARP;

// A place in the source.
struct Site {
    const char* file;
    int line;

    bool operator==(const Site& other) const {
        return line == other.line && (file == other.file || strcmp(file, other.file) == 0);
    }
};

enum class Wait : uint8_t { Nothing, BlockBarrier, Warp };

struct Thread {
    uint3 index; // threadIdx
    unsigned number;
    Stack* stack; // null until it starts
    Context context;
    Wait wait;
    Site site; // of what it waits for
    // Its part in a warp operation.
    uint64_t value;
    unsigned source; // lane a shuffle reads

    unsigned warp() const { return number / WARP; }
    unsigned lane() const { return number % WARP; }
};

// Lanes that meet in one warp operation. Several can be open at a time, for different masks.
struct Meeting {
    uint32_t mask;
    uint32_t arrived;
    WarpOperation operation;
    unsigned opener; // thread
    Site site;
};

struct Warp {
    uint32_t lanes;    // that the block has
    uint32_t runnable; // neither waiting nor exited
    uint32_t exited;
    unsigned meeting_count;
    Meeting meetings[WARP];
};

struct Launch {
    const Kernel* kernel;
    const void* arguments;
    unsigned threads;
    unsigned warp_count;
    unsigned shared_bytes;
    unsigned char* shared;
    uint64_t order; // state of the generator that chooses the next thread; 0: natural order
    Context scheduler;

    // The current block.
    uint32_t runnable_warps;
    unsigned live;
    unsigned at_barrier;
    unsigned first_at_barrier; // thread
    Site barrier;

    bool failed;
    char* message;
    size_t message_size;

    Thread thread[MAX_THREADS];
    Warp warp[MAX_WARPS];
};

extern Launch* launch;  // null while none runs
extern Thread* current; // null outside of fibers

// Scheduler, engine.cpp. First the threads of every block are numbered, then the blocks run.
void lay_out_block(const uint32_t threads[3]);
void run_grid(const uint32_t blocks[3], uint32_t last_blocks);
// The current thread waits; returns when it is runnable again and has its turn.
void suspend(Wait wait, Site site);
void make_runnable(unsigned warp, uint32_t lanes);

// Ends the launch with an error: kernel, block and thread, then the message. Called on a fiber, which it abandons.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

// "(x, y, z)" of a thread, for messages. Valid until the eighth call from here.
const char* name_of(const Thread& thread);
const char* name_of(WarpOperation operation);

} // namespace harmonia_host
