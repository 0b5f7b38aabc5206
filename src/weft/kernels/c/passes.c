/* What a Transformer block does in training between its large products (see kernels/c/passes.py). Sums are in fp32.

Each pass reads and writes what it needs once. Threads take rows, or heads, in equal parts and in order, so that a number of threads
always finds the same. Shapes: M rows, N columns, B batch, T time, H heads, K head width; W is K, or more where vectors are longer. */

#include <math.h>
#include <string.h>

#include "exponential.h"
#include "kept.h"
#include "tiles.h"

enum { SHORT = LANES / 2, BAND = 32, NEAR = 64 }; /* rows of a tile, queries, and rows of sums that are taken together */

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

/* The sums (N) of the columns of x (M, N); space: (threads, 2, N) */
void columns(const float *restrict x, float *out, float *space, int64_t m, int64_t n, int64_t threads) {
    memset(space, 0, 2 * threads * n * sizeof *space);
#pragma omp parallel num_threads(threads)
    {
        int64_t thread = omp_get_thread_num(), to = first(m, thread + 1);
        float *restrict sums = space + 2 * thread * n;
        for (int64_t row = first(m, thread), held = 1; row < to; row++, held++) {
            for (int64_t i = 0; i < n; i++) sums[i] += x[row * n + i];
            if (held % NEAR == 0 || row == to - 1) settle(sums, n);
        }
    }
    gather(space + n, 2 * n, out, n, threads);
}

/* x (M, N) under a norm; mean, rate: (M) */
void norm(const float *x, const float *scale, const float *shift, Kept *out, float *mean, float *rate, double least,
          int64_t m, int64_t n, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < m; row++) {
        const float *restrict here = x + row * n;
        Kept *restrict to = out + row * n;
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += here[i];
        float middle = mean[row] = sum / n;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < n; i++) squares += (here[i] - middle) * (here[i] - middle);
        float by = rate[row] = 1 / sqrtf(squares / n + (float)least);
        for (int64_t i = 0; i < n; i++) to[i] = narrow((here[i] - middle) * by * scale[i] + (shift ? shift[i] : 0));
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

/* out (height, width vectors), whose rows lie apart, = words a (height, inner) by b (inner, width vectors), or more of it */
static inline __attribute__((always_inline)) void tile(int height, int width, Matrix a, Matrix b, float *out, int64_t apart, int64_t inner,
                                                       int more) {
    Lanes sums[SHORT][2];
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) sums[r][c] = more ? *(Lanes *)(out + r * apart + c * LANES) : (Lanes){0};
    accumulate(PAIR, height, width, a, b, inner, sums);
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) *(Lanes *)(out + r * apart + c * LANES) = sums[r][c];
}

/* out (rows, columns), whose rows lie apart, = words a (rows, inner) by b (inner, columns), or more of it; rows at most SHORT, columns a
   multiple of LANES */
static void multiply(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, float *out, int64_t apart, int more) {
    int64_t wide = columns - columns % (2 * LANES), step = rows == SHORT ? SHORT : 1;
    for (int64_t r = 0; r < rows; r += step, a.at += a.row, out += apart)
        for (int64_t c = 0; c < columns; c += c < wide ? 2 * LANES : LANES) {
            Matrix from = {b.at + c, b.row, 1};
            if (step == 1)
                c < wide ? tile(1, 2, a, from, out + c, apart, inner, more) : tile(1, 1, a, from, out + c, apart, inner, more);
            else
                c < wide ? tile(SHORT, 2, a, from, out + c, apart, inner, more) : tile(SHORT, 1, a, from, out + c, apart, inner, more);
        }
}

/* Keys that come later than queries of a band get no score, or no weight */
static void hide(float *scores, int64_t start, int64_t end, float as) {
    for (int64_t j = start; j < end; j++)
        for (int64_t l = 0; l < j - start; l++) scores[j * BAND + l] = as;
}

/* Scores of a band's queries, which are columns, become weights, as a query's largest and sum are then found without looking across a
   vector; wide: a multiple of LANES, as compilers make whole vectors of that */
static void weigh(float *restrict scores, int64_t start, int64_t seen, int64_t wide, float scale) {
    float tops[BAND], sums[BAND];
    for (int l = 0; l < BAND; l++) tops[l] = -INFINITY, sums[l] = 0;
    hide(scores, start, seen, -INFINITY);
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < wide; c += LANES) {
            float *restrict here = scores + j * BAND + c, *restrict top = tops + c;
            for (int64_t l = 0; l < LANES; l++) top[l] = here[l] > top[l] ? here[l] : top[l];
        }
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < wide; c += LANES) {
            float *restrict here = scores + j * BAND + c, *restrict top = tops + c, *restrict sum = sums + c;
#pragma omp simd
            for (int64_t l = 0; l < LANES; l++) sum[l] += here[l] = decay((here[l] - top[l]) * scale);
        }
    hide(scores, start, seen, 0);
    for (int l = 0; l < wide; l++) sums[l] = 1 / sums[l];
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < wide; c += LANES) {
            float *restrict here = scores + j * BAND + c, *restrict sum = sums + c;
            for (int64_t l = 0; l < LANES; l++) here[l] *= sum[l];
        }
}

/* The gradient of weights, which are 0 of keys that come later, becomes that of scores; shapes as before */
static void weigh_back(float *restrict change, const float *restrict weights, int64_t seen, int64_t wide, float scale) {
    float sums[BAND] = {0};
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < wide; c += LANES) {
            float *restrict here = change + j * BAND + c, *restrict sum = sums + c;
            const float *restrict weight = weights + j * BAND + c;
            for (int64_t l = 0; l < LANES; l++) sum[l] += here[l] * weight[l];
        }
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < wide; c += LANES) {
            float *restrict here = change + j * BAND + c, *restrict sum = sums + c;
            const float *restrict weight = weights + j * BAND + c;
            for (int64_t l = 0; l < LANES; l++) here[l] = weight[l] * (here[l] - sum[l]) * scale;
        }
}

/* A head's rows (T, K) of a packed tensor are fetched, or made ready to be written, as they lie too far apart to be foreseen */
static inline __attribute__((always_inline)) void foresee(const Kept *at, int64_t row, int64_t t, int64_t k, int write) {
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < k; j += 16 * PAIR) write ? __builtin_prefetch(at + i * row + j, 1) : __builtin_prefetch(at + i * row + j);
}

/* They go to (T, V words) with zeros behind */
static void take(const Kept *from, int64_t row, float *to, int64_t t, int64_t k, int64_t v) {
    for (int64_t i = 0; i < t; i++) {
        Kept *restrict line = (Kept *)(to + i * v);
        for (int64_t j = 0; j < k; j++) line[j] = from[i * row + j];
        for (int64_t j = k; j < PAIR * v; j++) line[j] = narrow(0);
    }
}

static inline float number(const void *x, int full, int64_t i) { return full ? ((const float *)x)[i] : widen(((const Kept *)x)[i]); }

static inline void put(void *x, int full, int64_t i, float value) {
    if (full)
        ((float *)x)[i] = value;
    else
        ((Kept *)x)[i] = narrow(value);
}

/* A head's vectors, in fp32 or as they are kept, by the angles of their places, or back by them; table: cosines and sines (2, T, K), or
   none */
static inline __attribute__((always_inline)) void apply_rope(void *rows, int full, int64_t apart, const float *table, float back, int64_t t,
                                                         int64_t k) {
    for (int64_t i = 0; table && i < t; i++) {
        const float *restrict cosine = table + i * k, *restrict sine = cosine + t * k;
#pragma omp simd
        for (int64_t j = 0; j < k / 2; j++) {
            int64_t left = i * apart + j, right = left + k / 2;
            float x = number(rows, full, left), y = number(rows, full, right);
            put(rows, full, left, x * cosine[j] - back * y * sine[j]), put(rows, full, right, y * cosine[j] + back * x * sine[j]);
        }
    }
}

/* Such rows as words of columns (T words, W); they are these already where a word is a number */
static const float *paired(const float *rows, float *to, int64_t t, int64_t v, int64_t w) {
    for (int64_t i = 0; PAIR > 1 && i < t; i += PAIR) {
        const Kept *restrict one = (const Kept *)(rows + i * v), *restrict other = (const Kept *)(rows + (i + 1) * v);
        Word *restrict line = (Word *)to + i / PAIR * w;
        if (i + 1 < t)
            for (int64_t j = 0; j < w; j++) line[j] = word(one[j], other[j]);
        else
            for (int64_t j = 0; j < w; j++) line[j] = word(one[j], narrow(0));
    }
    return PAIR > 1 ? to : rows;
}

/* Numbers of keys and a band's queries (seen, BAND) as words along queries (seen, BAND / PAIR), and along keys (seen words, BAND) */
static const float *along_queries(const float *numbers, float *to, int64_t seen) {
    if (PAIR > 1) keep(numbers, (Kept *)to, seen * BAND);
    return PAIR > 1 ? to : numbers;
}

static const float *along_keys(const float *rows, float *to, int64_t seen) { return paired(rows, to, seen, BAND / PAIR, BAND); }

/* Rows (T, V words) turned to (V, padded T) with zeros behind */
static void turn(const float *from, float *to, int64_t t, int64_t v) {
    int64_t p = padded(t);
    for (int64_t i = 0; i < p; i += LANES)
        for (int64_t j = 0; j < v; j += LANES) turn_square(from + i * v + j, v, t - i, to + j * p + i, p);
}

static void give(const float *from, Kept *to, int64_t row, int64_t t, int64_t k, int64_t w) {
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < k; j++) to[i * row + j] = narrow(from[i * w + j]);
}

/* The sums (K) of a head's columns (T, W), found in `near`, are added to others' */
static void add_up(const float *restrict from, float *restrict near, float *restrict sums, int64_t t, int64_t k, int64_t w) {
    memset(near, 0, w * sizeof *near);
    for (int64_t i = 0; i < t; i++)
        for (int64_t j = 0; j < w; j++) near[j] += from[i * w + j];
    for (int64_t j = 0; j < k; j++) sums[j] += near[j];
}

/* Words of a thread's space: rows of up to four parts with V words and turned, pairs and sums of up to three with W, and scores of a band
   twice, with two forms of words of each */
int64_t room(int64_t t, int64_t k) {
    int64_t v = padded(words_of(k)), p = padded(t);
    return 4 * t * v + 2 * v * p + 6 * p * padded(k) + 4 * BAND * p;
}

/* Where a head's first row begins in a tensor (B, T, parts, H, K) */
static int64_t begin(int64_t head, int64_t t, int64_t parts, int64_t h, int64_t k) {
    return head / h * t * parts * h * k + head % h * k;
}

/* qkv (B, T, 3, H, K), turned by a table (2, T, K) or by none -> what each head finds in the past (B, T, H, K); space: (threads, room) */
void attend(const Kept *qkv, const float *table, Kept *out, float *space, int64_t b, int64_t t, int64_t h, int64_t k, int64_t threads) {
    int64_t w = padded(k), v = padded(words_of(k)), p = padded(t), all = 3 * h * k;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t head = 0; head < b * h; head++) {
        const Kept *from = qkv + begin(head, t, 3, h, k), *next = qkv + begin(head + 1, t, 3, h, k);
        float *q = space + omp_get_thread_num() * room(t, k), *key = q + t * v, *value = key + t * v, *queries = value + t * v;
        float *pairs = queries + v * p, *found = pairs + p * w, *scores = found + p * w, *rounded = scores + BAND * p;
        for (int i = 0; i < 3; i++) foresee(next + i * h * k, all, t, k, 0), take(from + i * h * k, all, q + i * t * v, t, k, v);
        foresee(out + begin(head, t, 1, h, k), h * k, t, k, 1);
        apply_rope(q, 0, PAIR * v, table, 1, t, k), apply_rope(key, 0, PAIR * v, table, 1, t, k);
        turn(q, queries, t, v);
        const float *values = paired(value, pairs, t, v, w);
        for (int64_t start = 0; start < t; start += BAND) {
            int64_t end = t - start < BAND ? t : start + BAND, wide = padded(end - start);
            for (int64_t j = 0; j < end; j += SHORT) {
                int64_t rows = end - j < SHORT ? end - j : SHORT, skip = j > start ? (j - start) / LANES * LANES : 0;
                Matrix from = {key + j * v, v, 1}, to = {queries + start + skip, p, 1};
                multiply(rows, wide - skip, v, from, to, scores + j * BAND + skip, BAND, 0);
            }
            weigh(scores, start, end, wide, 1 / sqrtf(k));
            const float *weights = along_keys(along_queries(scores, rounded, end), rounded + BAND * p / PAIR, end);
            for (int64_t i = start; i < end; i += SHORT) {
                int64_t rows = end - i < SHORT ? end - i : SHORT, words = words_of(i + rows);
                multiply(rows, w, words, (Matrix){weights + i - start, 1, BAND}, (Matrix){values, w, 1}, found + i * w, w, 0);
            }
        }
        give(found, out + begin(head, t, 1, h, k), h * k, t, k, w);
    }
}

/* The gradient of qkv from that of what was found, and the sums (3, H, K) of its columns; space: (threads, room), (threads, 3, H, K) */
void attend_back(const Kept *change, const Kept *qkv, const float *table, Kept *out, float *sums, float *space, int64_t b, int64_t t,
                 int64_t h, int64_t k, int64_t threads) {
    int64_t w = padded(k), v = padded(words_of(k)), p = padded(t), all = 3 * h * k;
    float *partly = space + threads * room(t, k);
    memset(partly, 0, threads * all * sizeof *partly);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t head = 0; head < b * h; head++) {
        int64_t place = begin(head, t, 3, h, k), next = begin(head + 1, t, 3, h, k);
        float *q = space + omp_get_thread_num() * room(t, k), *key = q + t * v, *value = key + t * v, *dout = value + t * v;
        float *queries = dout + t * v, *douts = queries + v * p, *pairs = douts + v * p, *dq = pairs + 3 * p * w;
        float *dkey = dq + t * w, *dvalue = dkey + t * w, *scores = dq + 3 * p * w, *dscores = scores + BAND * p;
        float *rounded = dscores + BAND * p, *drounded = rounded + BAND * p / PAIR, *columns = drounded + BAND * p / PAIR;
        for (int i = 0; i < 3; i++) {
            foresee(qkv + next + i * h * k, all, t, k, 0), foresee(out + place + i * h * k, all, t, k, 1);
            take(qkv + place + i * h * k, all, q + i * t * v, t, k, v);
        }
        foresee(change + begin(head + 1, t, 1, h, k), h * k, t, k, 0), take(change + begin(head, t, 1, h, k), h * k, dout, t, k, v);
        apply_rope(q, 0, PAIR * v, table, 1, t, k), apply_rope(key, 0, PAIR * v, table, 1, t, k);
        turn(q, queries, t, v), turn(dout, douts, t, v);
        Matrix qs = {paired(q, pairs, t, v, w), w, 1}, keys = {paired(key, pairs + p * w, t, v, w), w, 1};
        Matrix found = {paired(dout, pairs + 2 * p * w, t, v, w), w, 1};
        int64_t last = (t - 1) / BAND * BAND;
        for (int64_t start = last; start >= 0; start -= BAND) { /* the last queries look at all keys */
            int64_t end = t - start < BAND ? t : start + BAND, wide = padded(end - start);
            for (int64_t j = 0; j < end; j += SHORT) {
                int64_t rows = end - j < SHORT ? end - j : SHORT, skip = j > start ? (j - start) / LANES * LANES : 0, at = j * BAND + skip;
                multiply(rows, wide - skip, v, (Matrix){key + j * v, v, 1}, (Matrix){queries + start + skip, p, 1}, scores + at, BAND, 0);
                multiply(rows, wide - skip, v, (Matrix){value + j * v, v, 1}, (Matrix){douts + start + skip, p, 1}, dscores + at, BAND, 0);
            }
            weigh(scores, start, end, wide, 1 / sqrtf(k));
            hide(dscores, start, end, 0); /* what was skipped holds anything, and times 0 that may be no number */
            weigh_back(dscores, scores, end, wide, 1 / sqrtf(k));
            const float *weights = along_queries(scores, rounded, end), *dweights = along_queries(dscores, drounded, end);
            const float *turned = along_keys(dweights, columns, end);
            for (int64_t i = start; i < end; i += SHORT) {
                int64_t rows = end - i < SHORT ? end - i : SHORT, words = words_of(i + rows);
                multiply(rows, w, words, (Matrix){turned + i - start, 1, BAND}, keys, dq + i * w, w, 0);
            }
            for (int64_t j = 0; j < end; j += SHORT) { /* what these queries say of keys that they look at */
                int64_t rows = end - j < SHORT ? end - j : SHORT, from = j > start ? j : start, words = words_of(end - from);
                int64_t at = (j * BAND + from - start) / PAIR, behind = from / PAIR * w;
                Matrix weight = {weights + at, BAND / PAIR, 1}, dweight = {dweights + at, BAND / PAIR, 1};
                multiply(rows, w, words, weight, (Matrix){found.at + behind, w, 1}, dvalue + j * w, w, start < last);
                multiply(rows, w, words, dweight, (Matrix){qs.at + behind, w, 1}, dkey + j * w, w, start < last);
            }
        }
        apply_rope(dq, 1, w, table, -1, t, k), apply_rope(dkey, 1, w, table, -1, t, k);
        for (int i = 0; i < 3; i++) {
            give(dq + i * t * w, out + place + i * h * k, all, t, k, w);
            add_up(dq + i * t * w, queries, partly + omp_get_thread_num() * all + (i * h + head % h) * k, t, k, w);
        }
    }
    gather(partly, all, sums, all, threads);
}
