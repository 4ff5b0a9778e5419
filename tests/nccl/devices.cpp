// Several devices for the emulator, which has one under several numbers: put before its libcuda.so, it answers for the calls below.
//
// Each device has a context of its own and an identity; streams and memory belong to the device whose context was current when they
// were made. That is what the stand-in for NCCL (nccl.cpp) asks, and what a mistake of ranks, devices and streams is found by.
// DEVICES_SAME=1: all devices are the same one, as for processes that were given one GPU.

#include "devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>

// EMULATOR: the path of its libcuda.so, which this is linked with.
#define REAL(name) reinterpret_cast<decltype(&name)>(dlsym(emulator(), #name))

namespace {
constexpr int MOST = 16;
void* emulator() {
    static void* library = dlopen(EMULATOR, RTLD_LAZY);
    return library;
}
std::mutex lock;
void* real_context = nullptr;
char contexts[MOST]; // their addresses are contexts
thread_local int current = -1;
struct Allocation {
    size_t bytes;
    int device;
};
std::map<uint64_t, Allocation> allocations;
std::map<void*, int> streams;

int made(int code, uint64_t address, size_t bytes) {
    std::lock_guard<std::mutex> guard(lock);
    if (!code) allocations[address] = {bytes, current};
    return code;
}

void gone(uint64_t address) {
    std::lock_guard<std::mutex> guard(lock);
    allocations.erase(address);
}
} // namespace

int devices_current() { return current; }

int devices_of_stream(void* stream) {
    std::lock_guard<std::mutex> guard(lock);
    const auto found = streams.find(stream);
    return found == streams.end() ? -1 : found->second;
}

int devices_of_memory(uint64_t address, size_t bytes) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = allocations.upper_bound(address);
    if (found == allocations.begin()) return -1;
    --found;
    return address + bytes <= found->first + found->second.bytes ? found->second.device : -1;
}

API int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
    memset(uuid, 0, 16);
    snprintf(reinterpret_cast<char*>(uuid), 16, "emulated %d", getenv("DEVICES_SAME") ? 0 : device);
    return 0;
}

API int cuDevicePrimaryCtxRetain(void** context, int device) {
    const int code = REAL(cuDevicePrimaryCtxRetain)(&real_context, device);
    *context = &contexts[device];
    return code;
}

API int cuCtxSetCurrent(void* context) {
    const auto at = static_cast<char*>(context) - contexts;
    current = context && at >= 0 && at < MOST ? static_cast<int>(at) : -1;
    return REAL(cuCtxSetCurrent)(current < 0 ? context : real_context);
}

API int cuStreamCreate(void** stream, unsigned flags) {
    const int code = REAL(cuStreamCreate)(stream, flags);
    std::lock_guard<std::mutex> guard(lock);
    if (!code) streams[*stream] = current;
    return code;
}

API int cuStreamDestroy_v2(void* stream) {
    {
        std::lock_guard<std::mutex> guard(lock);
        streams.erase(stream);
    }
    return REAL(cuStreamDestroy_v2)(stream);
}

API int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    const int code = REAL(cuMemAlloc_v2)(address, bytes);
    return made(code, *address, bytes);
}

API int cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream) {
    const int code = REAL(cuMemAllocAsync)(address, bytes, stream);
    return made(code, *address, bytes);
}

API int cuMemFree_v2(uint64_t address) {
    gone(address);
    return REAL(cuMemFree_v2)(address);
}

API int cuMemFreeAsync(uint64_t address, void* stream) {
    gone(address);
    return REAL(cuMemFreeAsync)(address, stream);
}
