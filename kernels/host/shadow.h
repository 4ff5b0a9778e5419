// Race detection: who touched each two bytes of memory last, and whether a barrier lies in between.
//
// Time is counted in phases. A new one begins with every block and with every __syncthreads, so that two accesses of
// one phase come from one block with no block barrier in between, and all bookkeeping of earlier phases is out of date
// without being cleared. Inside a phase, threads of different warps are never ordered; lanes of one warp are ordered by
// __syncwarp, followed by vector clocks: `step` counts the warp barriers a lane has passed, and a lane knows of each
// other lane which steps lie behind a common barrier. Different blocks of a launch are never ordered.
//
// Neighbouring bytes at an even address count as one: no kernel has single-byte data.
#pragma once

#include "engine.h"

#include <vector>

namespace harmonia_host {
namespace checks {

enum class Access : uint8_t { Read, Write, Atomic };

// Accesses of one kind to two bytes, enough of them that any later conflict is with one of these.
struct Accesses {
    uint32_t phase;       // of the latest; 0: never
    uint32_t lanes;       // of `warp`, at `step`
    uint32_t step;
    uint32_t other_block; // phase of the latest access from an earlier block than `phase` belongs to
    uint32_t caller;      // instruction of the latest, as offset into the module
    uint16_t other_warp;  // 1 + a thread of another warp in the same phase; 0: none
    uint8_t warp;
    bool atomic : 1;
    bool plain_before : 1; // atomic, but the same block wrote without atomics in an earlier phase
};

struct Cell {
    Accesses reads;
    Accesses writes; // plain: the last one; atomic: all of them
};

// An earlier access that conflicts with the present one.
struct Conflict {
    bool found;
    bool with_read; // else with a write
    bool other_block;
    uint32_t phase;
    unsigned thread; // known unless other_block
    uint32_t caller;
};

class Clock {
  public:
    void launch_begins();
    void block_begins();
    void block_barrier();
    void warp_barrier(unsigned warp, uint32_t mask);

    // First phase of the current block; what lies before is other blocks' or other launches'.
    uint32_t block() const { return block_phase; }
    // Which block of the launch, in launch order, a phase of it belongs to.
    size_t block_number(uint32_t of_phase) const;

    // Checks an access of the current thread against earlier ones and remembers it.
    Conflict access(Cell& cell, Access access, bool shared, uint32_t caller);

  private:
    uint32_t phase = 0;
    uint32_t block_phase = 0;
    uint32_t launch_phase = 0;
    std::vector<uint32_t> block_phases; // first phase of every block of the launch so far

    uint32_t stepped = 0; // warps with a warp barrier in this phase
    uint32_t step[MAX_THREADS] = {};
    // Of each lane of the thread's warp: its steps below this number are ordered before the thread's present.
    uint32_t known[MAX_THREADS][WARP] = {};

    void next_phase();
    Conflict conflict(const Accesses& earlier, bool shared) const;
    void remember(Accesses& accesses, bool atomic, uint32_t caller) const;
};

} // namespace checks
} // namespace harmonia_host
