// Fibers: stacks, and the switch from one to another.
//
// A switch saves the registers a C function must preserve and swaps the stack pointer; on x86-64 and aarch64 that is a
// dozen instructions, elsewhere `swapcontext` does it (hundreds of nanoseconds, for it asks the kernel for the signal
// mask).
#pragma once

#include <cstddef>

#if defined(HARMONIA_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define HARMONIA_SWITCH_BY_UCONTEXT 1
#include <ucontext.h>
#endif

namespace harmonia_host {

struct Stack {
    char* base; // lowest usable address; an inaccessible page lies below
    size_t size;
};

// Where a suspended fiber goes on.
struct Context {
#ifdef HARMONIA_SWITCH_BY_UCONTEXT
    ucontext_t registers;
#else
    void* stack_pointer;
#endif
    // Only for the address sanitizer, which must be told which stack is in use.
    const void* stack_base;
    size_t stack_size;
};

// A stack nobody uses; null where memory is short.
Stack* take_stack();
void give_stack_back(Stack* stack);
// All stacks are free again: their fibers have been abandoned.
void reclaim_stacks();

// Makes `context` start `run` on `stack` when switched to. `run` never returns.
void prepare(Context& context, const Stack& stack, void (*run)());
// Suspends the running fiber in `from`, goes on in `to`.
void switch_context(Context& from, Context& to);
// First call of a fiber that has just been switched to for the first time.
void arrived();

} // namespace harmonia_host
