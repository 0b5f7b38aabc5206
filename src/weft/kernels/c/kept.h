/* The type in which what large products read is kept between them: fp32, or bf16 where KEEP_BF16 is defined. Two of the latter fill a
word of 32 bits, which products take as a pair. Included by passes.c and products.c. */

#pragma once
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

#include "exponential.h"

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#ifdef KEEP_BF16
typedef uint16_t Kept;
enum { PAIR = 2 }; /* of a word */

static inline float widen(Kept x) { return from_bits((uint32_t)x << 16); }

/* The nearest, of two the even one; NaN stays */
static inline Kept narrow(float x) {
    uint32_t bits = bits_of(x);
    return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t word(Kept one, Kept other) { return one | (uint32_t)other << 16; }
#else
typedef float Kept;
enum { PAIR = 1 };

static inline float widen(Kept x) { return x; }
static inline Kept narrow(float x) { return x; }
static inline uint32_t word(Kept one, Kept other) { return bits_of(one); }
#endif

/* That hold so many numbers of a row, or of a column */
static inline int64_t words_of(int64_t k) { return (k + PAIR - 1) / PAIR; }

/* A number of a matrix that is held in fp32, or as it is kept */
static inline Kept kept_at(const void *x, int full, int64_t i) { return full ? narrow(((const float *)x)[i]) : ((const Kept *)x)[i]; }

/* n numbers as they are kept; processors that know bf16 round a vector at once */
static inline __attribute__((always_inline)) void keep(const float *restrict from, Kept *restrict to, int64_t n) {
    int64_t i = 0;
#if defined(KEEP_BF16) && defined(__AVX512BF16__)
    for (; i + 16 <= n; i += 16) {
        __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
        memcpy(to + i, &rounded, sizeof rounded);
    }
#endif
    for (; i < n; i++) to[i] = narrow(from[i]);
}
