// Where threads wait for each other: the barrier of a block, and the operations of a warp.
//
// Whoever arrives last makes the others runnable. All must come from the same place in the source; a thread that comes
// from another one, or has returned, is an error as soon as it is known.
#include "checks.h"
#include "engine.h"

namespace harmonia_host {

namespace {

const char* const OPERATION_NAMES[] = {"__syncwarp",      "__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync",
                                       "__shfl_xor_sync", "__ballot_sync", "__any_sync",     "__all_sync"};

// The lane a shuffle reads, as PTX defines it: where the operand leads out of the segment of `width` lanes, its own.
unsigned source_lane(WarpOperation operation, unsigned lane, unsigned operand, unsigned width) {
    const unsigned first = lane & ~(width - 1);
    const unsigned last = first + width - 1;
    switch (operation) {
    case WarpOperation::ShuffleIndex:
        return first + (operand & (width - 1));
    case WarpOperation::ShuffleUp:
        return operand <= lane - first ? lane - operand : lane;
    case WarpOperation::ShuffleDown:
        return operand <= last - lane ? lane + operand : lane;
    case WarpOperation::ShuffleXor:
        return (lane ^ operand) <= last ? lane ^ operand : lane;
    default:
        return lane;
    }
}

// All lanes have arrived: exchanges their values and sends them on.
void conclude(unsigned warp_number, Meeting meeting) {
    Thread* thread = &launch->thread[warp_number * WARP];
    uint64_t values[WARP];
    uint32_t votes = 0;
    for (uint32_t lanes = meeting.mask; lanes != 0; lanes &= lanes - 1) {
        const unsigned lane = __builtin_ctz(lanes);
        values[lane] = thread[lane].value;
        votes |= (values[lane] != 0 ? 1u : 0u) << lane;
    }
    for (uint32_t lanes = meeting.mask; lanes != 0; lanes &= lanes - 1) {
        Thread& target = thread[__builtin_ctz(lanes)];
        switch (meeting.operation) {
        case WarpOperation::Sync:
            break;
        case WarpOperation::Ballot:
            target.value = votes;
            break;
        case WarpOperation::Any:
            target.value = votes != 0;
            break;
        case WarpOperation::All:
            target.value = votes == meeting.mask;
            break;
        default:
            target.value = values[target.source];
        }
    }
    // Shuffles and votes order no memory on a GPU; only __syncwarp does.
    if (meeting.operation == WarpOperation::Sync) {
        checks::warp_barrier(warp_number, meeting.mask);
    }
    const uint32_t others = meeting.mask & ~(1u << current->lane());
    if (others != 0) {
        make_runnable(warp_number, others);
    }
}

} // namespace

const char* name_of(WarpOperation operation) { return OPERATION_NAMES[static_cast<int>(operation)]; }

void block_barrier(const char* file, int line) {
    const Site site{file, line};
    if (launch->live < launch->threads) {
        unsigned number = 0;
        while (!(launch->warp[number / WARP].exited >> (number % WARP) & 1)) {
            number += 1;
        }
        fail("barrier divergence: waits in __syncthreads at %s:%d, but thread %s has returned", file, line,
             name_of(launch->thread[number]));
    }
    if (launch->at_barrier == 0) {
        launch->barrier = site;
        launch->first_at_barrier = current->number;
    } else if (!(launch->barrier == site)) {
        fail("barrier divergence: waits in __syncthreads at %s:%d, but thread %s waits in __syncthreads at %s:%d", file,
             line, name_of(launch->thread[launch->first_at_barrier]), launch->barrier.file, launch->barrier.line);
    }
    launch->at_barrier += 1;
    if (launch->at_barrier < launch->threads) {
        suspend(Wait::BlockBarrier, site);
        return;
    }
    launch->at_barrier = 0;
    checks::block_barrier();
    for (unsigned number = 0; number < launch->warp_count; ++number) {
        make_runnable(number, launch->warp[number].lanes);
    }
    // The last to arrive goes on at once, unless chance decides.
    if (launch->order != 0) {
        suspend(Wait::Nothing, site);
        return;
    }
    Warp& warp = launch->warp[current->warp()];
    warp.runnable &= ~(1u << current->lane());
    if (warp.runnable == 0) {
        launch->runnable_warps &= ~(1u << current->warp());
    }
}

uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, unsigned operand, int width,
                        const char* file, int line) {
    Thread& self = *current;
    Warp& warp = launch->warp[self.warp()];
    const char* name = name_of(operation);
    if (!(mask >> self.lane() & 1)) {
        fail("warp divergence: calls %s at %s:%d with mask 0x%08x, which lacks its own lane %u", name, file, line, mask,
             self.lane());
    }
    if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
        fail("%s at %s:%d with width %d, which is no power of two up to 32", name, file, line, width);
    }
    mask &= warp.lanes;
    if ((mask & warp.exited) != 0) {
        const unsigned gone = self.warp() * WARP + __builtin_ctz(mask & warp.exited);
        fail("warp divergence: waits in %s at %s:%d for thread %s, which has returned", name, file, line,
             name_of(launch->thread[gone]));
    }
    self.value = value;
    self.source = source_lane(operation, self.lane(), operand, static_cast<unsigned>(width));
    if (!(mask >> self.source & 1)) {
        fail("warp divergence: %s at %s:%d reads lane %u, which is not in mask 0x%08x", name, file, line, self.source,
             mask);
    }

    unsigned number = 0;
    while (number < warp.meeting_count && warp.meetings[number].mask != mask) {
        number += 1;
    }
    Meeting& meeting = warp.meetings[number];
    const Site site{file, line};
    if (number == warp.meeting_count) {
        warp.meeting_count += 1;
        meeting = Meeting{mask, 0, operation, self.number, site};
    } else if (meeting.operation != operation || !(meeting.site == site)) {
        fail("warp divergence: waits in %s at %s:%d, but thread %s waits in %s at %s:%d", name, file, line,
             name_of(launch->thread[meeting.opener]), name_of(meeting.operation), meeting.site.file, meeting.site.line);
    }
    meeting.arrived |= 1u << self.lane();
    if (meeting.arrived != mask) {
        suspend(Wait::Warp, site);
        return self.value;
    }
    const Meeting complete = meeting;
    warp.meeting_count -= 1;
    meeting = warp.meetings[warp.meeting_count];
    conclude(self.warp(), complete);
    if (launch->order != 0 && complete.mask != 1u << self.lane()) {
        make_runnable(self.warp(), 1u << self.lane());
        suspend(Wait::Nothing, site);
    }
    return self.value;
}

} // namespace harmonia_host
