// A second stream for the emulator, which has one queue for all: put before its libcuda.so, it answers for the calls below.
//
// The first stream made is the work; every other one transfers. A transfer happens twice, as early and as late as the order
// allows: at once, when nobody waits for anything, and again when the work waits for it. So the result is wrong
//   - where work that still reads a place is not waited for   (the early transfer overwrites it),
//   - where work does not wait for what it reads              (it runs before the late one),
//   - where the host fills a page-locked buffer too soon      (the late one finds other bytes).
// STREAMS_LOG=FILE: `launch`, `copy BYTES`, `arrive`, `leave`, `host-wait`, in the order of the calls.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
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
    const void* from;
    size_t bytes;
    void* event; // a record of this event, where it is not null
};
std::recursive_mutex lock;
void* work = nullptr;
std::map<void*, std::vector<Transfer>> pending; // of each stream of transfers

void say(const char* what, size_t bytes = 0) {
    static FILE* log = getenv("STREAMS_LOG") ? fopen(getenv("STREAMS_LOG"), "a") : nullptr;
    if (log) {
        bytes ? fprintf(log, "%s %zu\n", what, bytes) : fprintf(log, "%s\n", what);
        fflush(log);
    }
}
} // namespace

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream);

namespace {
// Hands transfers over to the queue: up to the last record of an event, or all.
bool flush(std::vector<Transfer>& transfers, void* event) {
    size_t end = transfers.size();
    if (event) {
        while (end > 0 && transfers[end - 1].event != event) --end;
        if (end == 0) return false;
    }
    for (size_t at = 0; at < end; ++at) {
        const Transfer& transfer = transfers[at];
        if (!transfer.event) REAL(cuMemcpyHtoDAsync_v2)(transfer.to, transfer.from, transfer.bytes, work);
    }
    transfers.erase(transfers.begin(), transfers.begin() + end);
    return true;
}
bool flush_event(void* event) {
    for (auto& [stream, transfers] : pending)
        if (flush(transfers, event)) return true;
    return false;
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
    return REAL(cuStreamDestroy_v2)(stream);
}

API int cuStreamSynchronize(void* stream) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) flush(pending[stream], nullptr);
    return REAL(cuStreamSynchronize)(stream);
}

API int cuEventRecord(void* event, void* stream) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) {
        pending[stream].push_back({0, nullptr, 0, event});
    }
    return REAL(cuEventRecord)(event, stream);
}

API int cuEventSynchronize(void* event) {
    std::lock_guard guard(lock);
    if (flush_event(event)) say("host-wait");
    return REAL(cuEventSynchronize)(event);
}

API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    std::lock_guard guard(lock);
    if (pending.count(stream)) {
        say("leave");
        // What was asked for before the event is done; what comes behind it may come at once.
        return REAL(cuStreamSynchronize)(work);
    }
    say("arrive");
    flush_event(event);
    return 0;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    std::lock_guard guard(lock);
    if (!pending.count(stream)) return REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream);
    say("copy", bytes);
    memcpy(reinterpret_cast<void*>(to), from, bytes);
    pending[stream].push_back({to, from, bytes, nullptr});
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
