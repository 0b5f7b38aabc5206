/* Products of a Transformer block in training, each with what follows it, done while its numbers are at hand (see kernels/c/passes.py).

What is multiplied is first laid out in words, rounded to the type in which it is kept, so that what a tile reads lies together; rows stay
where they are if they can be read there. Sums are in fp32. Threads take equal parts in order, and no sum depends on where it is found, so
that a number of threads always finds the same. Shapes: M rows, N columns of what is found, K what is summed over. */

#include <math.h>
#include <string.h>

#include "exponential.h"
#include "kept.h"
#include "panels.h"
#include "tiles.h"

enum { BLOCK = 8 * HEIGHT, ROWS = BLOCK + HEIGHT }; /* rows that take a panel in turn, and with zeros */
enum { DEPTH = 128, PAGE = 1024 }; /* words of a panel that stays in the first cache, where sums are over rows; and of a page */
enum Then { NOTHING, ROUND, PLUS, TIMES, GELU, GELU_TANH };

static inline int in_full(enum Then then) { return then == NOTHING || then == PLUS; }

/* What a line of numbers becomes, in fp32 after NOTHING and PLUS. After GELU, `more` holds it and `out` its slope: what a normal number
   leaves above x is a series by e^(-x^2/2), in the form of Abramowitz and Stegun 7.1.26, fitted with one term more to 1e-8; or
   tanh(u) = 2 / (1 + e^-2u) - 1 */
static inline __attribute__((always_inline)) void finish(enum Then then, const float *restrict line, const void *restrict with,
                                                         void *restrict out, Kept *restrict more, float *restrict sums, int64_t n) {
    const float *restrict residual = with;
    const Kept *restrict slope = with;
    int rounded = PAIR > 1 && !in_full(then);
    float results[WIDTH], others[WIDTH], *restrict to = rounded ? results : out, *restrict also = rounded ? others : (float *)more;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float x = line[i];
        if (then == PLUS) x += residual[i];
        if (then == TIMES) sums[i] += x *= widen(slope[i]);
        if (then == GELU) {
            float e = decay(-0.5f * x * x), t = 1 / (1 + 0.28f * fabsf(x));
            float series = 0.268914193f + t * (-0.236998498f + t * (0.389877111f + t * -0.105808996f));
            float above = e * t * (0.116521038f + t * (0.0674951375f + t * series)), below = x < 0 ? above : 1 - above;
            also[i] = x * below;
            x = below + x * e * 0.39894228f;
        }
        if (then == GELU_TANH) {
            float square = 0.044715f * x * x, e = decay(-1.59576912f * fabsf(x) * (1 + square)), t = 1 / (1 + e);
            float below = x < 0 ? e * t : t;
            also[i] = x * below;
            x = below + x * (e * t * t) * 1.59576912f * (1 + 3 * square);
        }
        to[i] = x;
    }
    if (rounded) keep(results, out, n);
    if (rounded && (then == GELU || then == GELU_TANH)) keep(others, more, n);
}

/* lines (height, WIDTH) = starts (WIDTH), or 0, + a (height, words) times a panel (words, WIDTH), its first vector or both */
static inline __attribute__((always_inline)) void vectors_tile(int width, const float *starts, Matrix a, const float *panel, int64_t words,
                                                               float *lines) {
    Lanes sums[HEIGHT][2];
    for (int r = 0; r < HEIGHT; r++)
        for (int c = 0; c < width; c++) sums[r][c] = starts ? *(Lanes *)(starts + c * LANES) : (Lanes){0};
    accumulate(PAIR, HEIGHT, width, a, (Matrix){panel, WIDTH, 1}, words, sums);
    for (int r = 0; r < HEIGHT; r++)
        for (int c = 0; c < width; c++) *(Lanes *)(lines + r * WIDTH + c * LANES) = sums[r][c];
}

/* As many columns of it as are wanted, at least */
static inline __attribute__((always_inline)) void tile(const float *starts, Matrix a, const float *panel, int64_t words, int64_t wide,
                                                       float *lines) {
    wide > LANES ? vectors_tile(2, starts, a, panel, words, lines) : vectors_tile(1, starts, a, panel, words, lines);
}

/* Rows from .. to of what is found; panels: (N / WIDTH, panel_size), sums: (N), block: (ROWS, distance) */
static inline __attribute__((always_inline)) void multiply(enum Then then, const void *x, int full, const float *panels, const void *with,
                                                           void *out, Kept *more, float *sums, float *block, int64_t from, int64_t to,
                                                           int64_t k, int64_t n) {
    int64_t read = then == TIMES ? sizeof(Kept) : sizeof(float), written = in_full(then) ? sizeof(float) : sizeof(Kept);
    int64_t apart = distance(k);
    for (int64_t start = from; start < to; start += BLOCK) {
        int64_t end = to - start < BLOCK ? to : start + BLOCK, number = end - start;
        Matrix rows = {block, apart, 1};
        if ((PAIR == 1 || !full) && k % PAIR == 0 && number % HEIGHT == 0 && words_of(k) % PAGE) /* they can be read where they lie */
            rows = (Matrix){(const float *)((const Kept *)x + start * k), words_of(k), 1};
        else {
            full ? line_up((const float *)x + start * k, 1, k, number, k, block, apart)
                 : line_up((const Kept *)x + start * k, 0, k, number, k, block, apart);
            memset(block + number * apart, 0, (HEIGHT - 1) * apart * sizeof *block);
        }
        for (int64_t c = 0; c < n; c += WIDTH) {
            int64_t wide = n - c < WIDTH ? n - c : WIDTH;
            const float *panel = panels + c / WIDTH * panel_size(k);
            float lines[HEIGHT * WIDTH] __attribute__((aligned(64)));
            float near[WIDTH] = {0}; /* sums of few rows, so that rounding takes little from them */
            for (int64_t row = start; row < end; row += HEIGHT) {
                int64_t next = end - row < HEIGHT ? end : row + HEIGHT;
                for (int64_t i = row * n + c; i < next * n; i += n) /* what is read and written then lies too far apart to be foreseen */
                    for (int64_t j = i; j < i + wide; j += 16) {
                        __builtin_prefetch((char *)out + j * written, 1);
                        if (then == PLUS || then == TIMES) __builtin_prefetch((const char *)with + j * read);
                        if (then == GELU || then == GELU_TANH) __builtin_prefetch(more + j, 1);
                    }
                tile(panel, (Matrix){rows.at + (row - start) * rows.row, rows.row, 1}, panel + WIDTH, words_of(k), wide,
                     lines);
                for (int64_t i = row; i < next; i++) {
                    int64_t place = i * n + c;
                    const float *line = lines + (i - row) * WIDTH;
                    const void *other = (const char *)with + place * read;
                    void *goal = (char *)out + place * written;
                    if (wide == WIDTH)
                        finish(then, line, other, goal, more + place, near, WIDTH);
                    else
                        finish(then, line, other, goal, more + place, near, wide);
                }
            }
            if (then == TIMES)
                for (int64_t i = 0; i < wide; i++) sums[c + i] += near[i];
        }
    }
}

/* Words of the space that a product needs: panels, and for each thread, sums and a block of rows */
int64_t product_room(int64_t k, int64_t n, int64_t threads) {
    return (n + WIDTH - 1) / WIDTH * panel_size(k) + threads * (padded(n) + ROWS * distance(k));
}

/* x (M, K), in fp32 or as it is kept, times a weight (K, N) of which the distances of entries are given, plus a bias (N) or none, and what
   then happens: nothing, rounding, a sum with others (M, N), a product with them, where `more` gets the sums (N) of columns, or GELU */
void product(int64_t then, const void *x, int64_t full, const float *w, int64_t row, int64_t column, const float *bias, const void *with,
             void *out, void *more, float *space, int64_t m, int64_t k, int64_t n, int64_t threads) {
    int64_t panels = (n + WIDTH - 1) / WIDTH, each = panel_size(k);
    float *partly = space + panels * each, *blocks = partly + threads * padded(n);
    memset(partly, 0, threads * padded(n) * sizeof *partly);
#pragma omp parallel num_threads(threads)
    {
        int64_t thread = omp_get_thread_num(), from = first(m, thread), to = first(m, thread + 1);
        float *own = partly + thread * padded(n), *block = blocks + thread * ROWS * distance(k);
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; panel++) {
            int64_t c = panel * WIDTH, wide = n - c < WIDTH ? n - c : WIDTH;
            for (int64_t i = 0; i < WIDTH; i++) space[panel * each + i] = bias && i < wide ? bias[c + i] : 0;
            lay(w + c * column, row, column, k, wide, space + panel * each + WIDTH, block);
        }
        switch (then) {
        case NOTHING: multiply(NOTHING, x, full, space, with, out, more, own, block, from, to, k, n); break;
        case ROUND: multiply(ROUND, x, full, space, with, out, more, own, block, from, to, k, n); break;
        case PLUS: multiply(PLUS, x, full, space, with, out, more, own, block, from, to, k, n); break;
        case TIMES: multiply(TIMES, x, full, space, with, out, more, own, block, from, to, k, n); break;
        case GELU: multiply(GELU, x, full, space, with, out, more, own, block, from, to, k, n); break;
        default: multiply(GELU_TANH, x, full, space, with, out, more, own, block, from, to, k, n);
        }
    }
    if (then == TIMES) {
        float *sums = more;
        memset(sums, 0, n * sizeof *sums);
        for (int64_t t = 0; t < threads; t++)
            for (int64_t i = 0; i < n; i++) sums[i] += partly[t * padded(n) + i];
    }
}

/* Panels of columns whose words go along rows, a little further apart than they are long: pages apart they would share a place in caches */
enum { TALL = 4 * HEIGHT, TALL_PANEL = DEPTH * TALL + LANES, WIDE_PANEL = DEPTH * WIDTH + LANES };

static inline int64_t number_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Words of the space that a product over rows needs */
int64_t rows_product_room(int64_t n, int64_t k, int64_t threads) {
    return threads * (number_of(n, TALL) * TALL_PANEL + number_of(k, WIDTH) * WIDE_PANEL);
}

/* Columns from .. to that are a thread's own: a share of them in whole tiles, or all */
typedef struct {
    int64_t from, to;
} Part;

static inline Part part(int64_t n, int64_t each, int shared) {
    if (!shared) return (Part){0, n};
    int64_t thread = omp_get_thread_num(), tiles = number_of(n, each), end = first(tiles, thread + 1) * each;
    return (Part){first(tiles, thread) * each, end < n ? end : n};
}

/* The sum over rows of x (M, N) by y (M, K), each in fp32 or as it is kept: (N, K). Threads share out the longer side */
void rows_product(const void *x, int64_t x_full, const void *y, int64_t y_full, float *out, float *space, int64_t m, int64_t n, int64_t k,
                  int64_t threads) {
#pragma omp parallel num_threads(threads)
    {
        Part down = part(n, HEIGHT, n >= k), along = part(k, WIDTH, n < k);
        float *xs = space + omp_get_thread_num() * rows_product_room(n, k, 1), *ys = xs + number_of(n, TALL) * TALL_PANEL;
        for (int64_t row = 0; row < m; row += DEPTH * PAIR) {
            int64_t rows = m - row < DEPTH * PAIR ? m - row : DEPTH * PAIR, high = down.to - down.from, wide = along.to - along.from;
            x_full ? pair_up((const float *)x + row * n + down.from, 1, n, rows, high, TALL, xs, TALL_PANEL)
                   : pair_up((const Kept *)x + row * n + down.from, 0, n, rows, high, TALL, xs, TALL_PANEL);
            y_full ? pair_up((const float *)y + row * k + along.from, 1, k, rows, wide, WIDTH, ys, WIDE_PANEL)
                   : pair_up((const Kept *)y + row * k + along.from, 0, k, rows, wide, WIDTH, ys, WIDE_PANEL);
            for (int64_t c = 0; c < wide; c += WIDTH)
                for (int64_t r = 0; r < high; r += HEIGHT) {
                    float lines[HEIGHT * WIDTH] __attribute__((aligned(64))), *corner = out + (down.from + r) * k + along.from + c;
                    int64_t height = high - r < HEIGHT ? high - r : HEIGHT, width = wide - c < WIDTH ? wide - c : WIDTH;
                    for (int64_t i = 0; i < height; i++)
                        for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(corner + i * k + j, 1);
                    Matrix left = {xs + r / TALL * TALL_PANEL + r % TALL, 1, TALL};
                    tile(0, left, ys + c / WIDTH * WIDE_PANEL, words_of(rows), width, lines);
                    for (int64_t i = 0; i < height; i++) {
                        float *restrict to = corner + i * k, *restrict line = lines + i * WIDTH;
                        if (row)
                            for (int64_t j = 0; j < width; j++) to[j] += line[j];
                        else
                            memcpy(to, line, width * sizeof *to);
                    }
                }
        }
    }
}
