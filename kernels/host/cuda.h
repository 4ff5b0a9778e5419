// CUDA as kernels see it on the host: the part of the language and of its library that our kernels use.
//
// Each thread of a block is a fiber of engine.cpp; barriers and warp operations are calls into it that return once all
// threads concerned have arrived. `__shared__` variables are statics: blocks run one after the other, so one copy is
// enough. Every operation takes its place in the source as a default argument, for messages and to tell barriers apart.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#pragma GCC visibility push(hidden)
namespace harmonia_host {

// A kernel that can be launched by name. Static objects, linked into a list before main.
struct Kernel {
    const char* name;
    size_t argument_size;
    unsigned most_threads;              // of a block: __launch_bounds__
    void (*run)(const void* arguments); // one thread of it
    Kernel* next;

    Kernel(const char* name, size_t argument_size, unsigned most_threads, void (*run)(const void*));
};

struct Grid {
    uint3 block_index;
    dim3 block_dim;
    dim3 grid_dim;
};

enum class WarpOperation : uint8_t { Sync, ShuffleIndex, ShuffleUp, ShuffleDown, ShuffleXor, Ballot, Any, All };

extern Grid grid;

// Constant as long as a kernel function runs: a fiber is one thread.
__attribute__((const)) const uint3& thread_index();
void* dynamic_shared();
void block_barrier(const char* file, int line);
uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, unsigned operand, int width,
                        const char* file, int line);
// Tells the checked build that the current thread is about to change this word atomically.
void atomic_access(const void* address, size_t size, const void* caller);

} // namespace harmonia_host
#pragma GCC visibility pop

// By value, as on the device: the compiler then knows that no store of the kernel changes its arguments.
#define BOUNDED_KERNEL(name, Args, threads, blocks)                                                                   \
    static void name([[maybe_unused]] const Args args);                                                               \
    static harmonia_host::Kernel harmonia_kernel_##name(                                                              \
        #name, sizeof(Args), threads, [](const void* arguments) { name(*static_cast<const Args*>(arguments)); });     \
    static void name([[maybe_unused]] const Args args)

#define KERNEL(name, Args) BOUNDED_KERNEL(name, Args, 1024, 1)

#define DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(harmonia_host::dynamic_shared())

#define threadIdx (harmonia_host::thread_index())
#define blockIdx (harmonia_host::grid.block_index)
#define blockDim (harmonia_host::grid.block_dim)
#define gridDim (harmonia_host::grid.grid_dim)
constexpr int warpSize = 32;

// Barriers. The compiler must keep no memory in registers across them, whatever it finds out about the callee.
#define HARMONIA_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(HARMONIA_SITE) {
    asm volatile("" ::: "memory");
    harmonia_host::block_barrier(file, line);
    asm volatile("" ::: "memory");
}

inline void __syncwarp(unsigned mask = 0xffffffffu, HARMONIA_SITE) {
    asm volatile("" ::: "memory");
    harmonia_host::warp_operation(harmonia_host::WarpOperation::Sync, mask, 0, 0, 32, file, line);
    asm volatile("" ::: "memory");
}

// Shuffles and votes.
namespace harmonia_host {

template <typename T>
inline T shuffle(WarpOperation operation, unsigned mask, T value, unsigned operand, int width, const char* file,
                 int line) {
    static_assert(std::is_arithmetic<T>::value && sizeof(T) >= 4, "CUDA shuffles 32-bit and 64-bit numbers");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = warp_operation(operation, mask, bits, operand, width, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace harmonia_host

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, HARMONIA_SITE) {
    return harmonia_host::shuffle(harmonia_host::WarpOperation::ShuffleIndex, mask, value, lane, width, file, line);
}

template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HARMONIA_SITE) {
    return harmonia_host::shuffle(harmonia_host::WarpOperation::ShuffleUp, mask, value, delta, width, file, line);
}

template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HARMONIA_SITE) {
    return harmonia_host::shuffle(harmonia_host::WarpOperation::ShuffleDown, mask, value, delta, width, file, line);
}

template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, HARMONIA_SITE) {
    return harmonia_host::shuffle(harmonia_host::WarpOperation::ShuffleXor, mask, value, lane_mask, width, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, HARMONIA_SITE) {
    return static_cast<unsigned>(harmonia_host::warp_operation(harmonia_host::WarpOperation::Ballot, mask,
                                                               predicate != 0, 0, 32, file, line));
}

inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}

inline int __any_sync(unsigned mask, int predicate, HARMONIA_SITE) {
    return static_cast<int>(harmonia_host::warp_operation(harmonia_host::WarpOperation::Any, mask, predicate != 0, 0,
                                                          32, file, line));
}

inline int __all_sync(unsigned mask, int predicate, HARMONIA_SITE) {
    return static_cast<int>(harmonia_host::warp_operation(harmonia_host::WarpOperation::All, mask, predicate != 0, 0,
                                                          32, file, line));
}

// Atomics. Fibers switch only inside engine calls, so a plain read, change and write cannot be interrupted; it is
// hidden from the checked build's instrumentation, which learns of the access from `atomic_access`. The wrappers must
// be inlined so that the caller is the kernel.
namespace harmonia_host {

template <typename T, typename Change>
__attribute__((noinline, no_sanitize_thread)) T atomic(T* address, Change change) {
    atomic_access(address, sizeof(T), __builtin_return_address(0));
    const T old = *address;
    *address = change(old);
    return old;
}

} // namespace harmonia_host

#define HARMONIA_ATOMIC(name, T, result)                                                                              \
    __forceinline__ T name(T* address, T value) {                                                                     \
        return harmonia_host::atomic(address, [value](T old) __attribute__((no_sanitize_thread)) -> T {               \
            (void)old;                                                                                                \
            return result;                                                                                            \
        });                                                                                                           \
    }

// Signed sums wrap around on the device, hence the detour through unsigned.
HARMONIA_ATOMIC(atomicAdd, int, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
HARMONIA_ATOMIC(atomicAdd, unsigned, old + value)
HARMONIA_ATOMIC(atomicAdd, unsigned long long, old + value)
HARMONIA_ATOMIC(atomicAdd, float, old + value)
HARMONIA_ATOMIC(atomicMax, int, old > value ? old : value)
HARMONIA_ATOMIC(atomicMax, unsigned, old > value ? old : value)
HARMONIA_ATOMIC(atomicMin, int, old < value ? old : value)
HARMONIA_ATOMIC(atomicMin, unsigned, old < value ? old : value)
HARMONIA_ATOMIC(atomicExch, int, value)
HARMONIA_ATOMIC(atomicExch, unsigned, value)
#undef HARMONIA_ATOMIC

__forceinline__ int atomicCAS(int* address, int expected, int value) {
    return harmonia_host::atomic(
        address, [=](int old) __attribute__((no_sanitize_thread)) { return old == expected ? value : old; });
}

__forceinline__ unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value) {
    return harmonia_host::atomic(
        address, [=](unsigned old) __attribute__((no_sanitize_thread)) { return old == expected ? value : old; });
}

// Numbers.
template <typename T>
__forceinline__ T __ldg(const T* address) {
    return *address;
}

// Rounded on their own: the compiler is told not to contract (-ffp-contract=off).
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }

inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// As in CUDA: of mixed integers the common type, of floats the one that is not NaN.
template <typename A, typename B>
inline typename std::common_type<A, B>::type min(A first, B second) {
    using T = typename std::common_type<A, B>::type;
    if constexpr (std::is_floating_point<T>::value) {
        return std::fmin(static_cast<T>(first), static_cast<T>(second));
    } else {
        return static_cast<T>(second) < static_cast<T>(first) ? static_cast<T>(second) : static_cast<T>(first);
    }
}

template <typename A, typename B>
inline typename std::common_type<A, B>::type max(A first, B second) {
    using T = typename std::common_type<A, B>::type;
    if constexpr (std::is_floating_point<T>::value) {
        return std::fmax(static_cast<T>(first), static_cast<T>(second));
    } else {
        return static_cast<T>(first) < static_cast<T>(second) ? static_cast<T>(second) : static_cast<T>(first);
    }
}

#undef HARMONIA_SITE
