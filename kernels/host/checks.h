// What the scheduler tells the checkers. In the plain build all of it is nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonia_host {
namespace checks {

#ifdef HARMONIA_CHECKED
// Memory that kernels may use.
void allocated(const void* address, size_t size);
void freed(const void* address);
// Order of what threads do: the later event comes after everything before the earlier one.
void launch_begins();
void block_begins();
void block_barrier();
void warp_barrier(unsigned warp, uint32_t mask);
// An atomic change of a word by the current thread; `caller` is the instruction behind the call.
void atomic(const void* address, size_t size, const void* caller);
// Adds what the error message lacks while a fiber runs: the lines of the accesses it is about.
void complete(char* message, size_t size);
#else
inline void allocated(const void*, size_t) {}
inline void freed(const void*) {}
inline void launch_begins() {}
inline void block_begins() {}
inline void block_barrier() {}
inline void warp_barrier(unsigned, uint32_t) {}
inline void atomic(const void*, size_t, const void*) {}
inline void complete(char*, size_t) {}
#endif

} // namespace checks
} // namespace harmonia_host
