// The checked build: every memory access of the kernels is examined before it happens.
//
// Kernels are compiled with -fsanitize=thread, which makes the compiler call a function before each load and store; the
// functions are the ones below and not those of the thread sanitizer's library. They know which kernel, block and
// thread runs and report accesses outside of live memory, races (shadow.h) and reads of shared memory that the block
// has not written. This file must not be compiled with that option itself.
#include "checks.h"
#include "module.h"
#include "shadow.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

namespace harmonia_host {
namespace checks {

namespace {

struct FreeCells {
    void operator()(void* cells) const { free(cells); }
};

// Memory kernels may use, with what is known about it.
struct Region {
    uintptr_t begin;
    uintptr_t end;
    std::string name;
    std::unique_ptr<Cell, FreeCells> cells; // one for two bytes
    // Shared memory: for each byte the first phase of the block that wrote it last. Empty: global memory.
    std::vector<uint32_t> written;

    bool shared() const { return !written.empty(); }
};

std::map<uintptr_t, Region> allocations; // by address
std::map<uintptr_t, Region> variables;   // static shared memory, likewise
Region dynamic;                          // that of the current launch
Region* recent = nullptr;                // most accesses hit the same region as the one before
Clock timekeeper;

// Instructions of a reported access and of the one it conflicts with, as offsets into the module; 0: none. Their lines
// are added to the message once the fiber, whose stack is small, has been left.
uint32_t here = 0;
uint32_t there = 0;

Region make_region(uintptr_t begin, size_t size, std::string name, bool shared) {
    // Untouched pages of large blocks of zeros cost nothing.
    Cell* cells = static_cast<Cell*>(calloc(size / 2 + 1, sizeof(Cell)));
    return Region{begin, begin + size, std::move(name), std::unique_ptr<Cell, FreeCells>(cells),
                  std::vector<uint32_t>(shared ? size : 0)};
}

Region* find(std::map<uintptr_t, Region>& regions, uintptr_t address) {
    auto behind = regions.upper_bound(address);
    if (behind == regions.begin()) {
        return nullptr;
    }
    Region& region = std::prev(behind)->second;
    return address < region.end ? &region : nullptr;
}

Region* find(uintptr_t address) {
    if (recent != nullptr && recent->begin <= address && address < recent->end) {
        return recent;
    }
    if (dynamic.begin <= address && address < dynamic.end) {
        recent = &dynamic;
    } else {
        Region* found = find(allocations, address);
        recent = found != nullptr ? found : find(variables, address);
    }
    return recent;
}

bool inside(uintptr_t address, size_t size, const void* begin, size_t length) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(begin);
    return first <= address && address + size <= first + length;
}

// Memory that is no region: a thread's own variables, and what it may read only.
bool exempt(uintptr_t address, size_t size, Access access) {
    if (inside(address, size, current->stack->base, current->stack->size)) {
        return true;
    }
    if (access != Access::Read) {
        return false;
    }
    if (inside(address, size, &grid, sizeof grid) || inside(address, size, launch->thread, sizeof launch->thread) ||
        inside(address, size, launch->arguments, launch->kernel->argument_size)) {
        return true;
    }
    for (const Variable& constant : module().constants) {
        if (constant.begin <= address && address + size <= constant.end) {
            return true;
        }
    }
    return false;
}

const char* verb(Access access) {
    return access == Access::Read ? "reads" : access == Access::Write ? "writes" : "atomically changes";
}

[[noreturn]] void report_out_of_bounds(uintptr_t address, size_t size, Access access) {
    const Region* nearest = nullptr;
    uintptr_t distance = UINTPTR_MAX;
    const auto consider = [&](const Region& region) {
        const uintptr_t away = address < region.begin ? region.begin - address
                               : address >= region.end ? address - region.end
                                                       : 0;
        if (region.begin != region.end && away < distance) {
            distance = away;
            nearest = &region;
        }
    };
    for (const auto& entry : allocations) {
        consider(entry.second);
    }
    for (const auto& entry : variables) {
        consider(entry.second);
    }
    consider(dynamic);
    if (nearest == nullptr) {
        fail("out of bounds: %s %zu bytes at 0x%" PRIxPTR "; nothing is allocated", verb(access), size, address);
    }
    if (nearest->begin <= address && address < nearest->end) {
        fail("out of bounds: %s %zu bytes at 0x%" PRIxPTR ", %" PRIuPTR " of them behind the end of %s of %" PRIuPTR
             " bytes",
             verb(access), size, address, address + size - nearest->end, nearest->name.c_str(),
             nearest->end - nearest->begin);
    }
    const char* side = address < nearest->begin ? "before" : "behind the end of";
    fail("out of bounds: %s %zu bytes at 0x%" PRIxPTR ", %" PRIuPTR " bytes %s %s of %" PRIuPTR " bytes", verb(access),
         size, address, distance, side, nearest->name.c_str(), nearest->end - nearest->begin);
}

[[noreturn]] void report_race(const Region& region, size_t offset, size_t size, Access access,
                              const Conflict& conflict) {
    char who[128];
    if (conflict.other_block) {
        const size_t number = timekeeper.block_number(conflict.phase);
        const dim3& blocks = grid.grid_dim;
        snprintf(who, sizeof who, "block (%zu, %zu, %zu)", number % blocks.x, number / blocks.x % blocks.y,
                 number / blocks.x / blocks.y);
    } else {
        snprintf(who, sizeof who, "thread %s", name_of(launch->thread[conflict.thread]));
    }
    there = conflict.caller;
    fail("race: %s %zu bytes at byte %zu of %s, which %s %s, with no barrier in between", verb(access), size, offset,
         region.name.c_str(), who, conflict.with_read ? "reads" : "writes");
}

void examine(const void* pointer, size_t size, Access access, const void* caller) {
    if (current == nullptr || size == 0) { // a constructor, before any launch
        return;
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (exempt(address, size, access)) {
        return;
    }
    const uint32_t instruction = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(caller) - module().base);
    Region* region = find(address);
    if (region == nullptr || address + size > region->end) {
        here = instruction;
        report_out_of_bounds(address, size, access);
    }
    const size_t offset = address - region->begin;
    if (region->shared()) {
        for (size_t byte = offset; byte < offset + size; ++byte) {
            if (access != Access::Write && region->written[byte] != timekeeper.block()) {
                here = instruction;
                fail("unwritten shared memory: %s %zu bytes at byte %zu of %s, which the block has not written yet",
                     verb(access), size, offset, region->name.c_str());
            }
            region->written[byte] = timekeeper.block();
        }
    }
    for (size_t cell = offset / 2; cell <= (offset + size - 1) / 2; ++cell) {
        const Conflict conflict = timekeeper.access(region->cells.get()[cell], access, region->shared(), instruction);
        if (conflict.found) {
            here = instruction;
            report_race(*region, offset, size, access, conflict);
        }
    }
}

} // namespace

void allocated(const void* address, size_t size) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
    allocations[begin] = make_region(begin, size, "an allocation", false);
    recent = nullptr;
}

void freed(const void* address) {
    allocations.erase(reinterpret_cast<uintptr_t>(address));
    recent = nullptr;
}

void launch_begins() {
    if (variables.empty()) {
        for (const Variable& variable : module().shared) {
            const size_t size = variable.end - variable.begin;
            variables[variable.begin] =
                make_region(variable.begin, size, "shared variable `" + variable.name + "`", true);
        }
    }
    if (dynamic.written.size() < launch->shared_bytes) { // what earlier launches left in the shadow is out of date
        dynamic = make_region(0, launch->shared_bytes, "dynamic shared memory", true);
    }
    dynamic.begin = reinterpret_cast<uintptr_t>(launch->shared);
    dynamic.end = dynamic.begin + launch->shared_bytes;
    recent = nullptr;
    here = there = 0;
    timekeeper.launch_begins();
}

void block_begins() { timekeeper.block_begins(); }
void block_barrier() { timekeeper.block_barrier(); }
void warp_barrier(unsigned warp, uint32_t mask) { timekeeper.warp_barrier(warp, mask); }

void atomic(const void* address, size_t size, const void* caller) { examine(address, size, Access::Atomic, caller); }

void complete(char* message, size_t size) {
    std::string lines;
    if (here != 0) {
        lines += " (at " + module().line(here);
        lines += there != 0 ? "; the other at " + module().line(there) + ")" : ")";
    }
    const size_t length = strlen(message);
    snprintf(message + length, size - length, "%s", lines.c_str());
}

} // namespace checks
} // namespace harmonia_host

// The functions the compiler calls. Their names and arguments are fixed by gcc and clang.
using harmonia_host::checks::Access;

#define HOOK extern "C" __attribute__((visibility("hidden")))
#define CALLER __builtin_return_address(0)

#define ACCESS_HOOKS(size)                                                                                            \
    HOOK void __tsan_read##size(void* address) {                                                                      \
        harmonia_host::checks::examine(address, size, Access::Read, CALLER);                                          \
    }                                                                                                                 \
    HOOK void __tsan_write##size(void* address) {                                                                     \
        harmonia_host::checks::examine(address, size, Access::Write, CALLER);                                         \
    }                                                                                                                 \
    HOOK void __tsan_unaligned_read##size(void* address) {                                                            \
        harmonia_host::checks::examine(address, size, Access::Read, CALLER);                                          \
    }                                                                                                                 \
    HOOK void __tsan_unaligned_write##size(void* address) {                                                           \
        harmonia_host::checks::examine(address, size, Access::Write, CALLER);                                         \
    }                                                                                                                 \
    HOOK void __tsan_volatile_read##size(void* address) {                                                             \
        harmonia_host::checks::examine(address, size, Access::Read, CALLER);                                          \
    }                                                                                                                 \
    HOOK void __tsan_volatile_write##size(void* address) {                                                            \
        harmonia_host::checks::examine(address, size, Access::Write, CALLER);                                         \
    }
ACCESS_HOOKS(1)
ACCESS_HOOKS(2)
ACCESS_HOOKS(4)
ACCESS_HOOKS(8)
ACCESS_HOOKS(16)

HOOK void __tsan_read_range(void* address, size_t size) {
    harmonia_host::checks::examine(address, size, Access::Read, CALLER);
}

HOOK void __tsan_write_range(void* address, size_t size) {
    harmonia_host::checks::examine(address, size, Access::Write, CALLER);
}

HOOK void* __tsan_memcpy(void* to, const void* from, size_t size) {
    harmonia_host::checks::examine(from, size, Access::Read, CALLER);
    harmonia_host::checks::examine(to, size, Access::Write, CALLER);
    return memcpy(to, from, size);
}

HOOK void* __tsan_memmove(void* to, const void* from, size_t size) {
    harmonia_host::checks::examine(from, size, Access::Read, CALLER);
    harmonia_host::checks::examine(to, size, Access::Write, CALLER);
    return memmove(to, from, size);
}

HOOK void* __tsan_memset(void* to, int value, size_t size) {
    harmonia_host::checks::examine(to, size, Access::Write, CALLER);
    return memset(to, value, size);
}

HOOK void __tsan_init() {}
HOOK void __tsan_func_entry(void*) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_vptr_update(void**, void*) {}
HOOK void __tsan_vptr_read(void**) {}
