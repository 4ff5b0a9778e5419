// A cuBLAS for the emulator, in place of its own, which has no products in batches: they are multiplied one after the other. Linked with the
// emulator's library, so that every other function is found behind this one.

#include <cstdio>
#include <cstdlib>

#define API extern "C" __attribute__((visibility("default")))

API int cublasSgemm_v2(
    void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
    const float* beta, float* c, int ldc);

API int cublasSgemmStridedBatched(
    void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, long long stride_a,
    const float* b, int ldb, long long stride_b, const float* beta, float* c, int ldc, long long stride_c, int count) {
    // They are multiplied at the same time: none may write where another does.
    if (count > 1 && llabs(stride_c) < static_cast<long long>(ldc) * n) {
        fprintf(stderr, "EMU API-MISUSE: results of a batch overlap\n");
        abort();
    }
    for (int at = 0; at < count; ++at) {
        const int code = cublasSgemm_v2(
            handle, ta, tb, m, n, k, alpha, a + at * stride_a, lda, b + at * stride_b, ldb, beta, c + at * stride_c, ldc);
        if (code) return code;
    }
    return 0;
}
