// Philox 4x32-10 and dropout masks: the same bits as src/seed.rs.
#pragma once

#include "common.cuh"

// Ten rounds (Salmon et al., 2011): four words of counters turn into four random ones.
__device__ __forceinline__ void philox_rounds(
    uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0, uint32_t k1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint64_t first = 0xD2511F53ull * c0;
        const uint64_t second = 0xCD9E8D57ull * c2;
        c0 = static_cast<uint32_t>(second >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(second);
        c2 = static_cast<uint32_t>(first >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(first);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

// Word `index` of a stream.
__device__ __forceinline__ uint32_t philox(const Dropout& stream, uint64_t index) {
    uint32_t c0 = static_cast<uint32_t>(index >> 2);
    uint32_t c1 = static_cast<uint32_t>(index >> 34);
    uint32_t c2 = stream.purpose;
    uint32_t c3 = stream.step;
    philox_rounds(c0, c1, c2, c3, stream.key[0], stream.key[1]);
    const uint32_t low = (index & 1) ? c1 : c0;
    const uint32_t high = (index & 1) ? c3 : c2;
    return (index & 2) ? high : low;
}

// 0 where entry `index` is dropped, else the factor of kept entries.
__device__ __forceinline__ float keep(const Dropout& dropout, uint64_t index) {
    return philox(dropout, index) < dropout.threshold ? 0.0f : dropout.scale;
}

// X[i,k] as the experts see it; `index` is i * d + k, i counted from the first of the rows at hand.
__device__ __forceinline__ float masked_input(const Dropout& dropout, float x, uint64_t index) {
    return dropout.place == HARMONIA_DROP_INPUT && index < dropout.elements ? x * keep(dropout, dropout.first + index) : x;
}

// Factor on the whole response of feature k.
__device__ __forceinline__ float response_factor(const Dropout& dropout, uint32_t k) {
    return dropout.place == HARMONIA_DROP_FEATURE ? keep(dropout, k) : 1.0f;
}
