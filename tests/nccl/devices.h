// What the emulator's several devices (devices.cpp) know, and the driver's calls that the stand-in for NCCL makes itself.
#pragma once

#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

// The device whose context this thread has made current; -1: none.
API int devices_current();
// The device of a stream; -1: there is no such stream.
API int devices_of_stream(void* stream);
// The device of an allocation that holds so many bytes from an address on; -1: none does.
API int devices_of_memory(uint64_t address, size_t bytes);

API int cuInit(unsigned);
API int cuDeviceGetUuid_v2(unsigned char* uuid, int device);
API int cuDevicePrimaryCtxRetain(void** context, int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuCtxSetCurrent(void* context);
API int cuStreamCreate(void** stream, unsigned flags);
API int cuStreamDestroy_v2(void* stream);
API int cuStreamSynchronize(void* stream);
API int cuMemAlloc_v2(uint64_t* address, size_t bytes);
API int cuMemAllocAsync(uint64_t* address, size_t bytes, void* stream);
API int cuMemFree_v2(uint64_t address);
API int cuMemFreeAsync(uint64_t address, void* stream);
API int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream);
