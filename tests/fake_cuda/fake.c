/* A CUDA driver and a cuBLAS of the host's own memory, so that src/device/cuda can be run where there is no GPU.
 *
 * One library with the functions of both. Everything happens at once, in the calling thread. What it checks, it checks by
 * abort(): a current context for each call that needs one, no double free, sizes within allocations, nothing left at the end.
 *
 *   FAKE_DRIVER=12020     version the driver claims            FAKE_DEVICES=0   how many devices it claims
 *   FAKE_REFUSE=1         fatbins are refused (2: all modules)  FAKE_POOLS=0     no memory pools
 *   FAKE_CAPABILITY=89    compute capability
 * Kernels: `fake_fill` {float* at; uint64 count; float value}, and `fake_crash`, after which every call fails.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Code;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NO_BINARY = 209, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };
enum { ALLOCATIONS = 4096 };
static const size_t TOTAL = (size_t)1 << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char* at; size_t size; } table[ALLOCATIONS];
static size_t used;
static int contexts, objects;
static volatile int crashed;
static __thread int current;

static void demand(int condition, const char* what) {
    if (!condition) { fprintf(stderr, "fake driver: %s\n", what); abort(); }
}
static int setting(const char* name, int otherwise) { const char* text = getenv(name); return text ? atoi(text) : otherwise; }
#define IN_CONTEXT do { demand(current, "no current context"); if (crashed) return ILLEGAL_ADDRESS; } while (0)

static void owned(uint64_t address, size_t size) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS; i++)
        found |= table[i].at && (uint64_t)table[i].at <= address && address + size <= (uint64_t)table[i].at + table[i].size;
    pthread_mutex_unlock(&lock);
    demand(found, "memory outside every allocation");
}

Code cuInit(unsigned flags) { (void)flags; return setting("FAKE_DEVICES", 1) ? OK : NO_DEVICE; }
Code cuDriverGetVersion(int* version) { *version = setting("FAKE_DRIVER", 13040); return OK; }
Code cuDeviceGetCount(int* count) { *count = setting("FAKE_DEVICES", 1); return OK; }
Code cuDeviceGet(int* device, int index) { *device = index; return OK; }
Code cuDeviceGetName(char* name, int size, int device) { (void)device; snprintf(name, size, "Fake GPU"); return OK; }
Code cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = TOTAL; return OK; }
Code cuDeviceGetAttribute(int* value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 2: case 3: *value = 1024; break;              /* block x, y */
    case 4: *value = 64; break;                        /* block z */
    case 5: *value = 2147483647; break;                /* grid x */
    case 6: case 7: *value = 65535; break;             /* grid y, z */
    case 16: *value = 108; break;                      /* multiprocessors */
    case 75: *value = setting("FAKE_CAPABILITY", 89) / 10; break;
    case 76: *value = setting("FAKE_CAPABILITY", 89) % 10; break;
    case 97: *value = 101376; break;                   /* shared memory, opt-in */
    case 115: *value = setting("FAKE_POOLS", 1); break; /* memory pools */
    default: return INVALID;
    }
    return OK;
}
Code cuDevicePrimaryCtxRetain(void** context, int device) {
    (void)device; __sync_fetch_and_add(&contexts, 1); *context = &contexts; return OK;
}
Code cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    demand(__sync_sub_and_fetch(&contexts, 1) >= 0, "context released twice");
    if (contexts == 0 && !crashed) demand(objects == 0 && used == 0, "context released before what lives in it");
    return OK;
}
Code cuCtxSetCurrent(void* context) { current = context == &contexts; return crashed ? ILLEGAL_ADDRESS : OK; }

static Code create(void** object) { IN_CONTEXT; __sync_fetch_and_add(&objects, 1); *object = malloc(1); return OK; }
static Code destroy(void* object) { IN_CONTEXT; __sync_fetch_and_sub(&objects, 1); free(object); return OK; }
Code cuStreamCreate(void** stream, unsigned flags) { (void)flags; return create(stream); }
Code cuStreamDestroy_v2(void* stream) { return destroy(stream); }
Code cuStreamSynchronize(void* stream) { (void)stream; IN_CONTEXT; return OK; }
Code cuEventCreate(void** event, unsigned flags) { (void)flags; return create(event); }
Code cuEventDestroy_v2(void* event) { return destroy(event); }
Code cuEventRecord(void* event, void* stream) { (void)event; (void)stream; IN_CONTEXT; return OK; }
Code cuEventSynchronize(void* event) { (void)event; IN_CONTEXT; return OK; }
Code cuEventElapsedTime(float* ms, void* a, void* b) { (void)a; (void)b; IN_CONTEXT; *ms = 1.5f; return OK; }

Code cuMemAlloc_v2(uint64_t* address, size_t size) {
    IN_CONTEXT;
    if (size == 0) return INVALID;
    Code code = NO_MEMORY;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS && used + size <= TOTAL; i++)
        if (!table[i].at) {
            table[i].at = aligned_alloc(256, (size + 255) / 256 * 256);
            table[i].size = size;
            used += size;
            *address = (uint64_t)table[i].at;
            code = OK;
            break;
        }
    pthread_mutex_unlock(&lock);
    return code;
}
Code cuMemFree_v2(uint64_t address) {
    IN_CONTEXT;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS; i++)
        if (table[i].at && (uint64_t)table[i].at == address) { found = 1; used -= table[i].size; free(table[i].at); table[i].at = 0; }
    pthread_mutex_unlock(&lock);
    demand(found, "free of what was not allocated");
    return OK;
}
Code cuMemAllocAsync(uint64_t* address, size_t size, void* stream) { (void)stream; return cuMemAlloc_v2(address, size); }
Code cuMemFreeAsync(uint64_t address, void* stream) { (void)stream; return cuMemFree_v2(address); }
Code cuMemHostAlloc(void** at, size_t size, unsigned flags) {
    (void)flags; IN_CONTEXT; __sync_fetch_and_add(&objects, 1); *at = malloc(size); return OK;
}
Code cuMemFreeHost(void* at) { return destroy(at); }
Code cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { IN_CONTEXT; *free_bytes = TOTAL - used; *total = TOTAL; return OK; }
Code cuDeviceGetDefaultMemPool(void** pool, int device) { (void)device; *pool = &used; return OK; }
Code cuMemPoolSetAttribute(void* pool, int attribute, void* value) { (void)pool; (void)value; return attribute == 4 ? OK : INVALID; }
Code cuMemPoolGetAttribute(void* pool, int attribute, uint64_t* value) { (void)pool; *value = used; return attribute == 5 || attribute == 7 ? OK : INVALID; }
Code cuMemPoolTrimTo(void* pool, size_t keep) { (void)pool; (void)keep; IN_CONTEXT; return OK; }
Code cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, void* stream) {
    (void)stream; IN_CONTEXT; owned(to, size); memcpy((void*)to, from, size); return OK;
}
Code cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void* stream) {
    (void)stream; IN_CONTEXT; owned(from, size); memcpy(to, (void*)from, size); return OK;
}
Code cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void* stream) {
    (void)stream; IN_CONTEXT; owned(to, size); memset((void*)to, value, size); return OK;
}

Code cuModuleLoadData(void** module, const void* image) {
    demand(image != 0, "no image");
    const int refuse = setting("FAKE_REFUSE", 0), fatbin = !memcmp(image, "\x50\xed\x55\xba", 4);
    return refuse == 2 || (refuse == 1 && fatbin) ? NO_BINARY : create(module);
}
Code cuModuleUnload(void* module) { return destroy(module); }
Code cuModuleGetFunction(const char** function, void* module, const char* name) {
    (void)module; IN_CONTEXT;
    *function = !strcmp(name, "fake_fill") ? "fake_fill" : !strcmp(name, "fake_crash") ? "fake_crash" : 0;
    return *function ? OK : NOT_FOUND;
}
Code cuFuncGetAttribute(int* value, int attribute, void* function) { (void)function; *value = attribute == 0 ? 1024 : 376; return OK; }
Code cuFuncSetAttribute(void* function, int attribute, int value) {
    (void)function; IN_CONTEXT; return attribute == 8 && value == 101376 - 376 ? OK : INVALID;
}
Code cuLaunchKernel(const char* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                    unsigned shared, void* stream, void** parameters, void** extra) {
    (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; IN_CONTEXT;
    demand(extra == 0, "extra parameters");
    if (!strcmp(function, "fake_crash")) { crashed = 1; return OK; }
    struct { float* at; uint64_t count; float value; } args;
    memcpy(&args, parameters[0], sizeof args);
    owned((uint64_t)args.at, args.count * sizeof(float));
    for (uint64_t i = 0; i < args.count; i++) args.at[i] = args.value;
    return OK;
}
Code cuGetErrorName(int code, const char** name) {
    *name = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : code == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : 0;
    return *name ? OK : INVALID;
}
Code cuGetErrorString(int code, const char** text) { (void)code; *text = "a text"; return OK; }

/* cuBLAS: column-major C = alpha op(A) op(B) + beta C. */
Code cublasCreate_v2(void** handle) { return create(handle); }
Code cublasDestroy_v2(void* handle) { return destroy(handle); }
Code cublasSetStream_v2(void* handle, void* stream) { (void)handle; demand(stream != 0, "no stream"); return OK; }
Code cublasSetMathMode(void* handle, int mode) { (void)handle; demand(mode == 0, "not plain fp32"); return OK; }
Code cublasSetAtomicsMode(void* handle, int mode) { (void)handle; demand(mode == 0, "atomics"); return OK; }
const char* cublasGetStatusName(int status) { (void)status; return "CUBLAS_STATUS"; }
const char* cublasGetStatusString(int status) { (void)status; return "a text"; }
Code cublasSgemm_v2(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                    const float* b, int ldb, const float* beta, float* c, int ldc) {
    (void)handle; IN_CONTEXT;
    demand(lda >= (ta ? k : m) && ldb >= (tb ? n : k) && ldc >= m, "leading dimensions");
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++) sum += (ta ? a[i * lda + l] : a[l * lda + i]) * (tb ? b[l * ldb + j] : b[j * ldb + l]);
            c[j * ldc + i] = *alpha * sum + (*beta ? *beta * c[j * ldc + i] : 0);
        }
    return OK;
}
Code cublasSgemmStridedBatched(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, long long step_a,
                               const float* b, int ldb, long long step_b, const float* beta, float* c, int ldc, long long step_c, int count) {
    for (int i = 0; i < count; i++)
        cublasSgemm_v2(handle, ta, tb, m, n, k, alpha, a + i * step_a, lda, b + i * step_b, ldb, beta, c + i * step_c, ldc);
    return OK;
}
