// Race detection: see shadow.h.
#include "shadow.h"

#include <algorithm>

namespace harmonia_host {
namespace checks {

void Clock::next_phase() {
    phase += 1;
    for (uint32_t warps = stepped; warps != 0; warps &= warps - 1) {
        const unsigned first = __builtin_ctz(warps) * WARP;
        memset(&step[first], 0, WARP * sizeof step[0]);
        memset(&known[first], 0, WARP * sizeof known[0]);
    }
    stepped = 0;
}

void Clock::launch_begins() {
    launch_phase = phase + 1;
    block_phases.clear();
}

void Clock::block_begins() {
    next_phase();
    block_phase = phase;
    block_phases.push_back(phase);
}

void Clock::block_barrier() { next_phase(); }

void Clock::warp_barrier(unsigned warp, uint32_t mask) {
    const unsigned first = warp * WARP;
    uint32_t joined[WARP] = {};
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const unsigned lane = __builtin_ctz(lanes);
        step[first + lane] += 1;
        known[first + lane][lane] = step[first + lane];
        for (unsigned other = 0; other < WARP; ++other) {
            joined[other] = std::max(joined[other], known[first + lane][other]);
        }
    }
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        memcpy(known[first + __builtin_ctz(lanes)], joined, sizeof joined);
    }
    stepped |= 1u << warp;
}

size_t Clock::block_number(uint32_t of_phase) const {
    const auto behind = std::upper_bound(block_phases.begin(), block_phases.end(), of_phase);
    return static_cast<size_t>(behind - block_phases.begin()) - 1;
}

Conflict Clock::conflict(const Accesses& earlier, bool shared) const {
    const Conflict none{};
    if (earlier.phase < launch_phase) {
        return none;
    }
    // Shared memory of another block is other memory.
    if (!shared && earlier.phase < block_phase) {
        return Conflict{true, false, true, earlier.phase, 0, earlier.caller};
    }
    if (!shared && earlier.other_block >= launch_phase) {
        return Conflict{true, false, true, earlier.other_block, 0, 0};
    }
    if (earlier.phase < phase) {
        return none;
    }
    if (earlier.other_warp != 0 && (earlier.other_warp - 1u) / WARP != current->warp()) {
        return Conflict{true, false, false, phase, earlier.other_warp - 1u, earlier.caller};
    }
    uint32_t others = earlier.lanes;
    if (earlier.warp == current->warp()) {
        others &= ~(1u << current->lane());
        for (uint32_t lanes = others; lanes != 0; lanes &= lanes - 1) {
            const unsigned lane = __builtin_ctz(lanes);
            if (known[current->number][lane] > earlier.step) {
                others &= ~(1u << lane);
            }
        }
    }
    if (others == 0) {
        return none;
    }
    return Conflict{true, false, false, phase, earlier.warp * WARP + __builtin_ctz(others), earlier.caller};
}

void Clock::remember(Accesses& accesses, bool atomic, uint32_t caller) const {
    const uint32_t lane = 1u << current->lane();
    const uint32_t now = step[current->number];
    if (accesses.phase == phase && accesses.warp != current->warp()) {
        accesses.other_warp = static_cast<uint16_t>(current->number + 1);
        accesses.caller = caller;
        return;
    }
    if (accesses.phase == phase && accesses.step >= now) {
        // A lane that is behind the others is left out: it would count as if it were as far as they.
        accesses.lanes |= accesses.step == now ? lane : 0;
        accesses.caller = caller;
        return;
    }
    if (accesses.phase == phase) { // a later step of the same warp
        accesses.lanes = lane;
        accesses.step = now;
        accesses.atomic = atomic;
        accesses.caller = caller;
        return;
    }
    const bool earlier_block = accesses.phase >= launch_phase && accesses.phase < block_phase;
    const uint32_t other_block = earlier_block ? accesses.phase : accesses.other_block;
    const bool plain_before = accesses.phase >= block_phase && (!accesses.atomic || accesses.plain_before);
    accesses = Accesses{phase,       lane,   now, other_block, caller, 0, static_cast<uint8_t>(current->warp()), atomic,
                        plain_before};
}

Conflict Clock::access(Cell& cell, Access access, bool shared, uint32_t caller) {
    const bool both_atomic = access == Access::Atomic && cell.writes.atomic;
    if (!both_atomic || (cell.writes.plain_before && cell.writes.phase < block_phase)) {
        const Conflict with_write = conflict(cell.writes, shared);
        if (with_write.found) {
            return with_write;
        }
    }
    if (access == Access::Read) {
        remember(cell.reads, false, caller);
        return Conflict{};
    }
    Conflict with_read = conflict(cell.reads, shared);
    if (with_read.found) {
        with_read.with_read = true;
        return with_read;
    }
    if (access == Access::Write && cell.writes.phase == phase) {
        // Without a conflict, whatever was written before is ordered before this.
        cell.writes.lanes = 0;
        cell.writes.step = step[current->number];
        cell.writes.atomic = false;
    }
    remember(cell.writes, access == Access::Atomic, caller);
    return Conflict{};
}

} // namespace checks
} // namespace harmonia_host
