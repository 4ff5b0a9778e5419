// What the checkers know of the shared object they are in: constants, `__shared__` variables, source lines. Linux only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace harmonia_host {
namespace checks {

struct Variable {
    uintptr_t begin;
    uintptr_t end;
    std::string name; // demangled, as in "transpose(Transpose)::tile"
};

struct Module {
    std::string path;
    uintptr_t base = 0;
    std::vector<Variable> constants; // read-only segments, without names
    std::vector<Variable> shared;    // static `__shared__` variables, in order of address

    // "file:line" of the instruction before `offset` from the base, or an offset where no tool can tell.
    std::string line(uint32_t offset) const;
};

// Read from the file at the first call.
const Module& module();

} // namespace checks
} // namespace harmonia_host
