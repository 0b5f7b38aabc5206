/* What a Transformer block does in training between its large products, in fp32 (see layers/passes.py).

Each pass reads and writes what it needs once. Threads take rows, or heads, in equal parts and in order, so that a number of threads
always finds the same. Shapes: M rows, N columns, B batch, T time, H heads, K head width; W is K, or more where vectors are longer. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "exponential.h"

#ifdef __AVX512F__
enum { LANES = 16, HEIGHT = 8 }; /* of a vector, and rows of a product that registers hold */
#else
enum { LANES = 8, HEIGHT = 4 };
#endif
enum { BAND = 64, NEAR = 64 }; /* rows of scores, and of sums, that are taken together */
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Places __attribute__((vector_size(4 * LANES)));

/* x becomes the slope of GELU there. What a normal number leaves above x is a series by e^(-x^2/2), in the form of Abramowitz and Stegun
   7.1.26, fitted with one term more to 1e-8 */
void gelu(float *restrict x, float *restrict out, int64_t n, int64_t threads) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) {
        float e = exponential(-0.5f * x[i] * x[i]), t = 1 / (1 + 0.28f * fabsf(x[i]));
        float series = 0.268914193f + t * (-0.236998498f + t * (0.389877111f + t * -0.105808996f));
        float above = e * t * (0.116521038f + t * (0.0674951375f + t * series)), below = x[i] < 0 ? above : 1 - above;
        out[i] = x[i] * below;
        x[i] = below + x[i] * e * 0.39894228f;
    }
}

/* The same of its approximation by tanh(u) = 2 / (1 + e^-2u) - 1 */
void gelu_tanh(float *restrict x, float *restrict out, int64_t n, int64_t threads) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) {
        float square = 0.044715f * x[i] * x[i], e = exponential(-1.59576912f * x[i] * (1 + square)), below = 1 / (1 + e);
        out[i] = x[i] * below;
        x[i] = below + out[i] * (e * below) * 1.59576912f * (1 + 3 * square);
    }
}

/* The first of the rows that are a thread's own */
static int64_t first(int64_t rows, int64_t thread) { return rows * thread / omp_get_num_threads(); }

/* A thread's sums (2, N): of few rows, which go to those of many, so that rounding takes little from them */
static void settle(float *sums, int64_t n) {
    for (int64_t i = 0; i < n; i++) sums[n + i] += sums[i], sums[i] = 0;
}

/* The sums (N) of all threads', which lie apart */
static void gather(const float *sums, int64_t apart, float *out, int64_t n, int64_t threads) {
    memset(out, 0, n * sizeof *out);
    for (int64_t t = 0; t < threads; t++)
        for (int64_t i = 0; i < n; i++) out[i] += sums[t * apart + i];
}

/* The sums (N) of the columns of x (M, N), which is first multiplied by slopes where there are any; space: (threads, 2, N) */
void columns(float *restrict x, const float *restrict slope, float *out, float *space, int64_t m, int64_t n, int64_t threads) {
    memset(space, 0, 2 * threads * n * sizeof *space);
#pragma omp parallel num_threads(threads)
    {
        int64_t thread = omp_get_thread_num(), to = first(m, thread + 1);
        float *restrict sums = space + 2 * thread * n;
        for (int64_t row = first(m, thread), held = 1; row < to; row++, held++) {
            float *restrict here = x + row * n;
            if (slope)
                for (int64_t i = 0; i < n; i++) sums[i] += here[i] *= slope[row * n + i];
            else
                for (int64_t i = 0; i < n; i++) sums[i] += here[i];
            if (held % NEAR == 0 || row == to - 1) settle(sums, n);
        }
    }
    gather(space + n, 2 * n, out, n, threads);
}

/* x (M, N), to which others may be added, under a norm; mean, rate: (M) */
void norm(float *x, const float *added, const float *scale, const float *shift, float *out, float *mean, float *rate, double least,
          int64_t m, int64_t n, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < m; row++) {
        float *restrict here = x + row * n, *restrict to = out + row * n, sum = 0, squares = 0;
        if (added)
            for (int64_t i = 0; i < n; i++) here[i] += added[row * n + i];
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += here[i];
        float middle = mean[row] = sum / n;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++) squares += (here[i] - middle) * (here[i] - middle);
        float by = rate[row] = 1 / sqrtf(squares / n + (float)least);
        for (int64_t i = 0; i < n; i++) to[i] = (here[i] - middle) * by * scale[i] + (shift ? shift[i] : 0);
    }
}

/* The gradient of a norm's output (M, N) becomes that of its input x, plus what is added; with the gradients of scale and
   shift and the sums of the columns of what is found, each (N); space: (threads, 2, 3, N) */
void norm_back(float *restrict change, const float *restrict x, const float *restrict mean, const float *restrict rate,
               const float *restrict scale, const float *restrict added, float *dscale, float *dshift, float *found, float *space,
               int64_t m, int64_t n, int64_t threads) {
    float *out[] = {dscale, dshift, found};
    memset(space, 0, 6 * threads * n * sizeof *space);
#pragma omp parallel num_threads(threads)
    {
        int64_t thread = omp_get_thread_num(), to = first(m, thread + 1);
        float *restrict scales = space + 6 * thread * n, *restrict shifts = scales + n, *restrict sums = shifts + n;
        for (int64_t row = first(m, thread), held = 1; row < to; row++, held++) {
            float *restrict here = change + row * n, middle = mean[row], by = rate[row], whole = 0, along = 0;
            const float *restrict from = x + row * n, *restrict more = added + row * n;
#pragma omp simd reduction(+ : whole, along)
            for (int64_t i = 0; i < n; i++) {
                float normed = (from[i] - middle) * by;
                scales[i] += here[i] * normed, shifts[i] += here[i];
                whole += here[i] * scale[i], along += here[i] * scale[i] * normed;
            }
            whole /= n, along /= n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                here[i] = by * (here[i] * scale[i] - whole - (from[i] - middle) * by * along) + more[i];
                sums[i] += here[i];
            }
            if (held % NEAR == 0 || row == to - 1) settle(scales, 3 * n);
        }
    }
    for (int i = 0; i < 3; i++) gather(space + (3 + i) * n, 6 * n, out[i], n, threads);
}

/* Rows of numbers, by the distances of their entries */
typedef struct {
    float *at;
    int64_t row, column;
} Matrix;

static inline __attribute__((always_inline)) void tile(int height, int width, Matrix a, Matrix b, Matrix out, int64_t inner, int more) {
    Lanes sums[HEIGHT][2];
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) sums[r][c] = more ? *(Lanes *)(out.at + r * out.row + c * LANES) : (Lanes){0};
    for (int64_t p = 0; p < inner; p++)
        for (int r = 0; r < height; r++)
            for (int c = 0; c < width; c++) sums[r][c] += a.at[r * a.row + p * a.column] * *(Lanes *)(b.at + p * b.row + c * LANES);
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) *(Lanes *)(out.at + r * out.row + c * LANES) = sums[r][c];
}

/* out (rows, columns) = a (rows, inner) b (inner, columns), or more of it; rows at most HEIGHT, columns a multiple of LANES */
static void multiply(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, Matrix out, int more) {
    int64_t wide = columns - columns % (2 * LANES), step = rows == HEIGHT ? HEIGHT : 1;
    for (int64_t r = 0; r < rows; r += step, a.at += a.row, out.at += out.row)
        for (int64_t c = 0; c < columns; c += c < wide ? 2 * LANES : LANES) {
            Matrix from = {b.at + c, b.row, 1}, to = {out.at + c, out.row, 1};
            if (step == 1)
                c < wide ? tile(1, 2, a, from, to, inner, more) : tile(1, 1, a, from, to, inner, more);
            else
                c < wide ? tile(HEIGHT, 2, a, from, to, inner, more) : tile(HEIGHT, 1, a, from, to, inner, more);
        }
}

static int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Scores of all that row i may look at become weights; 0 beyond it. n: a multiple of LANES, as compilers make whole vectors of that */
static void weigh(float *scores, int i, int n, float scale) {
    float tops[LANES], sums[LANES] = {0}, top = -INFINITY, sum = 0;
    for (int l = 0; l < LANES; l++) tops[l] = -INFINITY;
    for (int j = 0; j < n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) tops[l] = j + l <= i && scores[j + l] > tops[l] ? scores[j + l] : tops[l];
#pragma omp simd reduction(max : top)
    for (int l = 0; l < LANES; l++) top = tops[l] > top ? tops[l] : top;
    for (int j = 0; j < n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) sums[l] += scores[j + l] = j + l <= i ? exponential((scores[j + l] - top) * scale) : 0;
#pragma omp simd reduction(+ : sum)
    for (int l = 0; l < LANES; l++) sum += sums[l];
    float by = 1 / sum;
    for (int j = 0; j < n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) scores[j + l] *= by;
}

/* The gradient of weights, which are 0 beyond what a row may look at, becomes that of scores; n as before */
static void weigh_back(float *restrict change, const float *restrict weights, int n, float scale) {
    float sums[LANES] = {0}, sum = 0;
    for (int j = 0; j < n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) sums[l] += change[j + l] * weights[j + l];
#pragma omp simd reduction(+ : sum)
    for (int l = 0; l < LANES; l++) sum += sums[l];
    for (int j = 0; j < n; j += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) change[j + l] = weights[j + l] * (change[j + l] - sum) * scale;
}

/* A head's rows (T, K) of a packed tensor, to (T, W) with zeros behind; the next head's are fetched, as they lie too far apart for the
   processor to foresee */
static void take(const float *from, const float *next, int64_t row, float *to, int64_t t, int64_t k, int64_t w) {
    for (int64_t i = 0; i < t; i++) {
        for (int64_t j = 0; j < k; j += 16) __builtin_prefetch(next + i * row + j);
        for (int64_t j = 0; j < k; j++) to[i * w + j] = from[i * row + j];
        for (int64_t j = k; j < w; j++) to[i * w + j] = 0;
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

/* (T, W) turned to (W, padded T) with zeros behind */
static void turn(const float *from, float *to, int64_t t, int64_t w) {
    int64_t p = padded(t);
    for (int64_t i = 0; i < p; i += LANES)
        for (int64_t j = 0; j < w; j += LANES) turn_square(from + i * w + j, w, t - i, to + j * p + i, p);
}

static void give(const float *from, float *to, int64_t row, int64_t t, int64_t k, int64_t w) {
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < k; j++) to[i * row + j] = from[i * w + j];
}

/* Numbers of a thread's space */
int64_t room(int64_t t, int64_t k) { return 8 * t * padded(k) + (2 * padded(k) + 2 * BAND) * padded(t); }

/* Where a head's first row begins in a tensor (B, T, parts, H, K) */
static int64_t begin(int64_t head, int64_t t, int64_t parts, int64_t h, int64_t k) {
    return head / h * t * parts * h * k + head % h * k;
}

/* qkv (B, T, 3, H, K) -> what each head finds in the past (B, T, H, K); space: (threads, room) */
void attend(const float *qkv, float *out, float *space, int64_t b, int64_t t, int64_t h, int64_t k, int64_t threads) {
    int64_t w = padded(k), p = padded(t), all = 3 * h * k;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t head = 0; head < b * h; head++) {
        const float *from = qkv + begin(head, t, 3, h, k), *next = qkv + begin(head + 1, t, 3, h, k);
        float *q = space + omp_get_thread_num() * room(t, k), *key = q + t * w, *value = key + t * w, *found = value + t * w;
        float *keys = found + t * w, *scores = keys + w * p;
        for (int i = 0; i < 3; i++) take(from + i * h * k, next + i * h * k, all, q + i * t * w, t, k, w);
        turn(key, keys, t, w);
        for (int64_t i = 0; i < t; i += HEIGHT) {
            int64_t rows = t - i < HEIGHT ? t - i : HEIGHT, seen = padded(i + rows);
            multiply(rows, seen, w, (Matrix){q + i * w, w, 1}, (Matrix){keys, p, 1}, (Matrix){scores, p, 1}, 0);
            for (int64_t r = 0; r < rows; r++) weigh(scores + r * p, i + r, seen, 1 / sqrtf(k));
            multiply(rows, w, i + rows, (Matrix){scores, p, 1}, (Matrix){value, w, 1}, (Matrix){found + i * w, w, 1}, 0);
        }
        give(found, out + begin(head, t, 1, h, k), h * k, t, k, w);
    }
}

/* The gradient of qkv from that of what was found */
void attend_back(const float *change, const float *qkv, float *out, float *space, int64_t b, int64_t t, int64_t h, int64_t k,
                 int64_t threads) {
    int64_t w = padded(k), p = padded(t), all = 3 * h * k;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t head = 0; head < b * h; head++) {
        int64_t place = begin(head, t, 3, h, k), next = begin(head + 1, t, 3, h, k);
        float *q = space + omp_get_thread_num() * room(t, k), *key = q + t * w, *value = key + t * w, *dout = value + t * w;
        float *dq = dout + t * w, *dkey = dq + t * w, *dvalue = dkey + t * w, *keys = dvalue + t * w, *values = keys + w * p;
        float *weights = values + w * p, *dscores = weights + BAND * p;
        for (int i = 0; i < 3; i++) take(qkv + place + i * h * k, qkv + next + i * h * k, all, q + i * t * w, t, k, w);
        take(change + begin(head, t, 1, h, k), change + begin(head + 1, t, 1, h, k), h * k, dout, t, k, w);
        turn(key, keys, t, w), turn(value, values, t, w);
        int64_t last = (t - 1) / BAND * BAND;
        for (int64_t start = last; start >= 0; start -= BAND) { /* the last rows look at all columns */
            int64_t end = t - start < BAND ? t : start + BAND;
            for (int64_t i = start; i < end; i += HEIGHT) {
                int64_t rows = end - i < HEIGHT ? end - i : HEIGHT, seen = padded(i + rows);
                Matrix weight = {weights + (i - start) * p, p, 1}, dscore = {dscores + (i - start) * p, p, 1};
                multiply(rows, seen, w, (Matrix){q + i * w, w, 1}, (Matrix){keys, p, 1}, weight, 0);
                multiply(rows, seen, w, (Matrix){dout + i * w, w, 1}, (Matrix){values, p, 1}, dscore, 0);
                for (int64_t r = 0; r < rows; r++) {
                    weigh(weight.at + r * p, i + r, seen, 1 / sqrtf(k));
                    weigh_back(dscore.at + r * p, weight.at + r * p, seen, 1 / sqrtf(k));
                }
                multiply(rows, w, i + rows, dscore, (Matrix){key, w, 1}, (Matrix){dq + i * w, w, 1}, 0);
            }
            for (int64_t j = 0; j < end; j += HEIGHT) { /* what these rows say of columns that they look at */
                int64_t rows = end - j < HEIGHT ? end - j : HEIGHT, from = j > start ? j : start, at = (from - start) * p + j;
                Matrix weight = {weights + at, 1, p}, dscore = {dscores + at, 1, p};
                multiply(rows, w, end - from, weight, (Matrix){dout + from * w, w, 1}, (Matrix){dvalue + j * w, w, 1}, start < last);
                multiply(rows, w, end - from, dscore, (Matrix){q + from * w, w, 1}, (Matrix){dkey + j * w, w, 1}, start < last);
            }
        }
        for (int i = 0; i < 3; i++) give(dq + i * t * w, out + place + i * h * k, all, t, k, w);
    }
}
