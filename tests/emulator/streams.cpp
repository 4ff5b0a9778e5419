// A second stream for the emulator, which has one queue for all: put before its libcuda.so, it answers for the calls below.
//
// The first stream made is the work; every other one transfers. A transfer begins as early as the order allows, at once, and ends as
// late: what it goes to holds nonsense from its call on, and what it brings is read when somebody waits for it. So the result is
// wrong
//   - where work that still reads a place is not waited for   (nonsense overwrites it),
//   - where work does not wait for what it reads              (it finds nonsense),
//   - where the host fills a page-locked buffer too soon      (other bytes are brought).
// STREAMS_LOG=FILE: `launch`, `copy BYTES`, `arrive`, `leave`, `host-wait`, in the order of the calls.
// STREAMS_FORGET=WHAT plants a bug, as if the calls were missing: `arrive`, the work's wait for a transfer; `leave`, a transfer's
// wait for the work; `record`, what it waits for; `buffer`, the host's wait for a page-locked buffer.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
// EMULATOR: the path of its libcuda.so, which this is linked with.
#define REAL(name) reinterpret_cast<decltype(&name)>(dlsym(emulator(), #name))

namespace {
void* emulator() {
    static void* library = dlopen(EMULATOR, RTLD_LAZY);
    return library;
}
struct Transfer {
    uint64_t to;
    const char* from;
    size_t bytes;
    void* event;             // a record of this event, where it is not null
    std::vector<char> taken; // what was read, once somebody waited for it
};
std::recursive_mutex lock;
void* work = nullptr;
std::map<void*, std::vector<Transfer>> pending; // of each stream of transfers
std::map<void*, uint64_t> waited;               // of each: up to when it has waited for work
std::map<void*, uint64_t> recorded;             // when an event was recorded behind work
std::map<uint64_t, uint64_t> used;              // since when work may use what was brought to an address
std::map<uint64_t, size_t> written;             // bytes that were ever brought to an address
std::set<void*> of_transfers;                   // events behind transfers
std::set<void*> of_work;                        // events that transfers wait for
uint64_t now = 1;

bool forgets(const char* what) {
    static const char* forgotten = getenv("STREAMS_FORGET");
    return forgotten && !strcmp(forgotten, what);
}

void say(const char* what, size_t bytes = 0) {
    static FILE* log = getenv("STREAMS_LOG") ? fopen(getenv("STREAMS_LOG"), "a") : nullptr;
    if (log) {
        bytes ? fprintf(log, "%s %zu\n", what, bytes) : fprintf(log, "%s\n", what);
        fflush(log);
    }
}

// Transfers before the last record of an event, or all of them; none where it is not among them.
size_t until(const std::vector<Transfer>& transfers, void* event) {
    size_t end = transfers.size();
    while (event && end > 0 && transfers[end - 1].event != event) --end;
    return end;
}

// Reads what transfers bring; whether any was left to read.
bool take(std::vector<Transfer>& transfers, size_t end) {
    bool any = false;
    for (size_t at = 0; at < end; ++at) {
        Transfer& transfer = transfers[at];
        if (!transfer.event && transfer.taken.empty()) {
            transfer.taken.assign(transfer.from, transfer.from + transfer.bytes);
            any = true;
        }
    }
    return any;
}
} // namespace

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream);
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream);

namespace {
// Transfers end: work that is still to run finds what they brought.
void finish(std::vector<Transfer>& transfers, void* event) {
    const size_t end = until(transfers, event);
    take(transfers, end);
    for (size_t at = 0; at < end; ++at) {
        const Transfer& transfer = transfers[at];
        if (transfer.event) continue;
        used[transfer.to] = now;
        memcpy(reinterpret_cast<void*>(transfer.to), transfer.taken.data(), transfer.bytes);
    }
    transfers.erase(transfers.begin(), transfers.begin() + end);
}
} // namespace

API int cuStreamCreate(void** stream, unsigned flags) {
    std::lock_guard guard(lock);
    const int code = REAL(cuStreamCreate)(stream, flags);
    if (!work) work = *stream;
    else pending[*stream];
    return code;
}

API int cuStreamDestroy_v2(void* stream) {
    std::lock_guard guard(lock);
    if (stream == work) work = nullptr;
    pending.erase(stream);
    waited.erase(stream);
    // Other memory may have its addresses.
    used.clear(), written.clear();
    return REAL(cuStreamDestroy_v2)(stream);
}

API int cuStreamSynchronize(void* stream) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) finish(pending[stream], nullptr);
    return REAL(cuStreamSynchronize)(stream);
}

API int cuEventDestroy_v2(void* event) {
    std::lock_guard guard(lock);
    recorded.erase(event), of_transfers.erase(event), of_work.erase(event);
    return REAL(cuEventDestroy_v2)(event);
}

API int cuEventRecord(void* event, void* stream) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) {
        of_transfers.insert(event);
        pending[stream].push_back({0, nullptr, 0, event, {}});
    } else if (!(forgets("record") && of_work.count(event))) {
        recorded[event] = ++now;
    }
    return REAL(cuEventRecord)(event, stream);
}

API int cuEventSynchronize(void* event) {
    std::lock_guard guard(lock);
    if (of_transfers.count(event)) {
        if (forgets("buffer")) return 0;
        for (auto& [stream, transfers] : pending)
            if (take(transfers, until(transfers, event))) say("host-wait");
        return 0;
    }
    // One never recorded counts as passed.
    return recorded.count(event) ? REAL(cuEventSynchronize)(event) : 0;
}

API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) {
        say("leave");
        of_work.insert(event);
        if (!forgets("leave") && recorded.count(event)) waited[stream] = recorded[event];
        return 0;
    }
    say("arrive");
    if (forgets("arrive")) return 0;
    ++now;
    for (auto& [transferring, transfers] : pending) finish(transfers, event);
    return 0;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    std::lock_guard guard(lock);
    if (!pending.count(stream)) return REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream);
    say("copy", bytes);
    // Work that was asked for before what the stream has waited for is done.
    if (waited[stream] > used[to]) REAL(cuStreamSynchronize)(work);
    if (written[to] < bytes) {
        // The emulator has to know that there is something.
        written[to] = bytes;
        REAL(cuMemsetD8Async)(to, 0xff, bytes, work);
        REAL(cuStreamSynchronize)(work);
    }
    memset(reinterpret_cast<void*>(to), 0xff, bytes);
    pending[stream].push_back({to, static_cast<const char*>(from), bytes, nullptr, {}});
    return 0;
}

API int cuLaunchKernel(
    void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    void* stream, void** arguments, void** extra) {
    std::lock_guard guard(lock);
    if (stream != work) abort();
    say("launch");
    return REAL(cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}
