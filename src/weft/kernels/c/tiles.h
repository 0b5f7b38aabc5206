/* Small products whose sums stay in registers, and what lies around them; included by passes.c and products.c. */

#pragma once
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif
#include <omp.h>
#include <stdint.h>

#ifdef __AVX512F__
enum { LANES = 16, HEIGHT = 12 }; /* of a vector, and the most rows of a tile whose sums registers hold, two vectors a row */
#else
enum { LANES = 8, HEIGHT = 6 };
#endif
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Places __attribute__((vector_size(4 * LANES)));
typedef int32_t Word __attribute__((may_alias));

static inline int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Rows of words, each of them a number or a pair of bf16, by the distances of their entries */
typedef struct {
    const float *at;
    int64_t row, column;
} Matrix;

/* sums + a b: a word by a vector of words, whose pairs are multiplied number by number, the second first, as processors do */
static inline __attribute__((always_inline)) Lanes plus_product(int pair, Lanes sums, const float *a, Lanes b) {
    if (pair == 1) return sums + *a * b;
    Places one = *(const Word *)a - (Places){0}, other = (Places)b;
#ifdef __AVX512BF16__
    return (Lanes)_mm512_dpbf16_ps((__m512)sums, (__m512bh)one, (__m512bh)other);
#else
    sums += (Lanes)(one & ~0xffff) * (Lanes)(other & ~0xffff);
    return sums + (Lanes)(one << 16) * (Lanes)(other << 16);
#endif
}

/* sums (height, width vectors) += a (height, inner) b (inner, width vectors) */
static inline __attribute__((always_inline)) void accumulate(int pair, int height, int width, Matrix a, Matrix b, int64_t inner,
                                                             Lanes sums[][2]) {
    for (int64_t p = 0; p < inner; p++) {
        Lanes line[2];
        for (int c = 0; c < width; c++) line[c] = *(Lanes *)(b.at + p * b.row + c * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < height; r++)
            for (int c = 0; c < width; c++) sums[r][c] = plus_product(pair, sums[r][c], a.at + r * a.row + p * a.column, line[c]);
    }
}

/* A square of numbers turned: quarters change places, then quarters of these; unrolled, so that compilers know which goes where */
static inline void turn_square(const float *from, int64_t row, int64_t rows, float *to, int64_t apart) {
    Lanes lines[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) lines[r] = r < rows ? *(Lanes *)(from + r * row) : (Lanes){0};
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2)
#pragma GCC unroll 16
        for (int r = 0; r < LANES; r++) {
            if (r & half) continue;
            Places upper, lower;
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) upper[i] = i & half ? LANES + i - half : i, lower[i] = i & half ? LANES + i : i + half;
            Lanes a = lines[r], b = lines[r + half];
            lines[r] = __builtin_shuffle(a, b, upper), lines[r + half] = __builtin_shuffle(a, b, lower);
        }
    for (int r = 0; r < LANES; r++) *(Lanes *)(to + r * apart) = lines[r];
}

/* The first of the rows that are a thread's own */
static inline int64_t first(int64_t rows, int64_t thread) { return rows * thread / omp_get_num_threads(); }
