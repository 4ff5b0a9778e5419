// The scheduler: runs the blocks of a launch one after the other, each thread of a block as a fiber.
//
// A thread runs until it waits for others or returns; then the next runnable one goes on. Since threads that return
// without waiting leave their stack to the next, kernels without barriers never switch. When nobody is runnable and
// somebody waits, the kernel is wrong in a way that would hang a GPU or be undefined there; it is an error here. Never
// compiled with a sanitizer.
#include "engine.h"
#include "checks.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace harmonia_host {

Grid grid;
Launch* launch = nullptr;
Thread* current = nullptr;

namespace {

constexpr unsigned char POISON = 0xff; // NaN as float, half, bfloat16 and double

// xorshift64*: the order only has to be different for every seed, and the same for the same.
uint32_t draw(uint64_t& state, uint32_t bound) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>(((state * 0x2545f4914f6cdd1dull >> 32) * bound) >> 32);
}

// Position of a set bit: the first one, or a random one in random order.
unsigned choose_bit(uint32_t bits) {
    if (launch->order != 0) {
        for (uint32_t skip = draw(launch->order, __builtin_popcount(bits)); skip > 0; --skip) {
            bits &= bits - 1;
        }
    }
    return __builtin_ctz(bits);
}

// The thread to go on with, or null. In natural order that is one of the same warp where there is one: its stack and
// data are in the cache.
Thread* next_thread() {
    if (launch->runnable_warps == 0) {
        return nullptr;
    }
    unsigned number = current != nullptr ? current->warp() : 0;
    if (launch->order != 0 || launch->warp[number].runnable == 0) {
        number = choose_bit(launch->runnable_warps);
    }
    Warp& warp = launch->warp[number];
    const unsigned lane = choose_bit(warp.runnable);
    warp.runnable &= ~(1u << lane);
    if (warp.runnable == 0) {
        launch->runnable_warps &= ~(1u << number);
    }
    return &launch->thread[number * WARP + lane];
}

[[noreturn]] void report_deadlock() {
    for (unsigned number = 0; number < launch->warp_count; ++number) {
        const Warp& warp = launch->warp[number];
        if (warp.meeting_count == 0) {
            continue;
        }
        const Meeting& meeting = warp.meetings[0];
        const Thread* thread = &launch->thread[number * WARP];
        const Thread& waits = thread[__builtin_ctz(meeting.arrived)];
        const Thread& missing = thread[__builtin_ctz(meeting.mask & ~meeting.arrived)];
        current = &launch->thread[waits.number];
        fail("warp divergence: waits in %s at %s:%d for thread %s, which waits in %s at %s:%d",
             name_of(meeting.operation), meeting.site.file, meeting.site.line, name_of(missing),
             missing.wait == Wait::BlockBarrier ? "__syncthreads" : "another warp operation", missing.site.file,
             missing.site.line);
    }
    fail("barrier divergence: no thread can go on");
}

void run_threads();

} // namespace

void make_runnable(unsigned warp, uint32_t lanes) {
    launch->warp[warp].runnable |= lanes;
    launch->runnable_warps |= 1u << warp;
}

void suspend(Wait wait, Site site) {
    Thread* self = current;
    self->wait = wait;
    self->site = site;
    Thread* next = next_thread();
    if (next == nullptr) {
        report_deadlock();
    }
    if (next == self) { // made runnable by itself, in random order
        self->wait = Wait::Nothing;
        return;
    }
    if (next->stack == nullptr) {
        next->stack = take_stack();
        if (next->stack == nullptr) {
            fail("no memory for the stack of thread %s", name_of(*next));
        }
        prepare(next->context, *next->stack, run_threads);
    }
    current = next;
    switch_context(self->context, next->context);
    self->wait = Wait::Nothing;
}

namespace {

// Bookkeeping of a thread that has returned from the kernel.
void leave(Thread& self) {
    if (launch->at_barrier > 0) {
        const Thread& waits = launch->thread[launch->first_at_barrier];
        fail("barrier divergence: returned while thread %s waits in __syncthreads at %s:%d", name_of(waits),
             launch->barrier.file, launch->barrier.line);
    }
    Warp& warp = launch->warp[self.warp()];
    for (unsigned i = 0; i < warp.meeting_count; ++i) {
        const Meeting& meeting = warp.meetings[i];
        if (meeting.mask >> self.lane() & 1) {
            fail("warp divergence: returned while thread %s waits for it in %s at %s:%d",
                 name_of(launch->thread[meeting.opener]), name_of(meeting.operation), meeting.site.file,
                 meeting.site.line);
        }
    }
    warp.exited |= 1u << self.lane();
    launch->live -= 1;
}

// Body of every fiber: a thread, then others that have not started, on the same stack.
void run_threads() {
    arrived();
    for (;;) {
        Thread* self = current;
        launch->kernel->run(launch->arguments);
        leave(*self);
        Thread* next = next_thread();
        if (next == nullptr) {
            if (launch->live > 0) {
                report_deadlock();
            }
            give_stack_back(self->stack);
            current = nullptr;
            switch_context(self->context, launch->scheduler);
        } else if (next->stack == nullptr) {
            next->stack = self->stack;
            current = next;
        } else {
            // Nobody takes the stack before the switch away from it.
            give_stack_back(self->stack);
            current = next;
            switch_context(self->context, next->context);
        }
    }
}

void run_block() {
    launch->live = launch->threads;
    launch->at_barrier = 0;
    launch->runnable_warps = 0;
    for (unsigned number = 0; number < launch->warp_count; ++number) {
        Warp& warp = launch->warp[number];
        warp.exited = 0;
        warp.meeting_count = 0;
        make_runnable(number, warp.lanes);
    }
    for (unsigned number = 0; number < launch->threads; ++number) {
        launch->thread[number].stack = nullptr;
        launch->thread[number].wait = Wait::Nothing;
    }
    if (launch->shared_bytes > 0) {
        memset(launch->shared, POISON, launch->shared_bytes);
    }
    checks::block_begins();
    Thread* first = next_thread();
    current = first;
    first->stack = take_stack();
    if (first->stack == nullptr) {
        launch->failed = true;
        snprintf(launch->message, launch->message_size, "no memory for the stack of a thread");
        return;
    }
    prepare(first->context, *first->stack, run_threads);
    switch_context(launch->scheduler, first->context);
}

} // namespace

const uint3& thread_index() { return current->index; }

void* dynamic_shared() { return launch->shared; }

void atomic_access(const void* address, size_t size, const void* caller) { checks::atomic(address, size, caller); }

const char* name_of(const Thread& thread) {
    static char names[8][40];
    static unsigned turn = 0;
    char* name = names[turn++ % 8];
    snprintf(name, sizeof names[0], "(%u, %u, %u)", thread.index.x, thread.index.y, thread.index.z);
    return name;
}

void fail(const char* format, ...) {
    char* message = launch->message;
    const size_t size = launch->message_size;
    const uint3 block = grid.block_index;
    const int start = snprintf(message, size, "kernel `%s`, block (%u, %u, %u), thread %s: ", launch->kernel->name,
                               block.x, block.y, block.z, name_of(*current));
    if (start > 0 && static_cast<size_t>(start) < size) {
        va_list values;
        va_start(values, format);
        vsnprintf(message + start, size - static_cast<size_t>(start), format, values);
        va_end(values);
    }
    launch->failed = true;
    Thread* self = current;
    current = nullptr;
    switch_context(self->context, launch->scheduler);
    abort(); // nobody resumes an abandoned fiber
}

void lay_out_block(const uint32_t threads[3]) {
    grid.block_dim = dim3{threads[0], threads[1], threads[2]};
    launch->threads = threads[0] * threads[1] * threads[2];
    launch->warp_count = (launch->threads + WARP - 1) / WARP;
    for (unsigned number = 0; number < launch->threads; ++number) {
        launch->thread[number].number = number;
        launch->thread[number].index =
            uint3{number % threads[0], number / threads[0] % threads[1], number / (threads[0] * threads[1])};
    }
    for (unsigned number = 0; number < launch->warp_count; ++number) {
        const unsigned lanes = launch->threads - number * WARP;
        launch->warp[number].lanes = lanes >= WARP ? 0xffffffffu : (1u << lanes) - 1;
    }
}

// Blocks in natural order; in random order from a random one on, in steps that reach every one of them. All of them, or
// `last_blocks` at the end of each dimension.
void run_grid(const uint32_t blocks[3], uint32_t last_blocks) {
    grid.grid_dim = dim3{blocks[0], blocks[1], blocks[2]};
    checks::launch_begins();
    uint32_t run[3];
    for (int i = 0; i < 3; ++i) {
        run[i] = last_blocks == 0 ? blocks[i] : std::min(blocks[i], last_blocks);
    }
    const uint64_t count = static_cast<uint64_t>(run[0]) * run[1] * run[2];
    uint64_t number = 0;
    uint64_t step = 1;
    if (launch->order != 0) {
        const uint32_t most = static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
        number = draw(launch->order, most);
        do {
            step = 1 + draw(launch->order, most);
        } while (std::gcd(step, count) != 1);
    }
    for (uint64_t done = 0; done < count; ++done, number = (number + step) % count) {
        grid.block_index = uint3{blocks[0] - run[0] + static_cast<uint32_t>(number % run[0]),
                                 blocks[1] - run[1] + static_cast<uint32_t>(number / run[0] % run[1]),
                                 blocks[2] - run[2] + static_cast<uint32_t>(number / run[0] / run[1])};
        run_block();
        current = nullptr;
        if (launch->failed) {
            checks::complete(launch->message, launch->message_size);
            reclaim_stacks();
            return;
        }
    }
}

} // namespace harmonia_host
