/* Products of a Transformer block in training, in fp32, each with what follows it, done while its numbers are at hand (see
layers/passes.py).

The weight is laid out in panels of columns each time, which costs little beside many rows; rows are read where they lie. Threads take
rows in equal parts and in order, and a row's sums do not depend on its place, so that a number of threads always finds the same.
Shapes: M rows, N columns of what is found, K what is summed over. */

#include <math.h>
#include <string.h>

#include "exponential.h"
#include "tiles.h"

enum { WIDTH = 2 * LANES, BLOCK = 4 * HEIGHT }; /* columns of a panel, and rows that take the same panel in turn */
enum Then { NOTHING, PLUS, TIMES, GELU, GELU_TANH };

/* What a line of numbers becomes. After GELU, `more` holds it and `out` its slope: what a normal number leaves above x is a series by
   e^(-x^2/2), in the form of Abramowitz and Stegun 7.1.26, fitted with one term more to 1e-8; or tanh(u) = 2 / (1 + e^-2u) - 1 */
static inline __attribute__((always_inline)) void finish(enum Then then, const float *restrict line, const float *restrict with,
                                                         float *restrict out, float *restrict more, float *restrict sums, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float x = line[i];
        if (then == PLUS) x += with[i];
        if (then == TIMES) sums[i] += x *= with[i];
        if (then == GELU) {
            float e = decay(-0.5f * x * x), t = 1 / (1 + 0.28f * fabsf(x));
            float series = 0.268914193f + t * (-0.236998498f + t * (0.389877111f + t * -0.105808996f));
            float above = e * t * (0.116521038f + t * (0.0674951375f + t * series)), below = x < 0 ? above : 1 - above;
            more[i] = x * below;
            x = below + x * e * 0.39894228f;
        }
        if (then == GELU_TANH) {
            float square = 0.044715f * x * x, e = decay(-1.59576912f * fabsf(x) * (1 + square)), t = 1 / (1 + e);
            float below = x < 0 ? e * t : t;
            more[i] = x * below;
            x = below + x * (e * t * t) * 1.59576912f * (1 + 3 * square);
        }
        out[i] = x;
    }
}

/* n columns of a weight (K, N), or of one that is turned, side by side (K, WIDTH) with zeros behind */
static void lay(const float *w, int64_t row, int64_t column, int64_t k, int64_t n, float *panel) {
    if (column == 1 && n == WIDTH)
        for (int64_t p = 0; p < k; p++) memcpy(panel + p * WIDTH, w + p * row, WIDTH * sizeof *w);
    else if (row == 1 && k % LANES == 0)
        for (int64_t p = 0; p < k; p += LANES)
            for (int64_t c = 0; c < WIDTH; c += LANES) turn_square(w + c * column + p, column, n - c, panel + p * WIDTH + c, WIDTH);
    else
        for (int64_t p = 0; p < k; p++)
            for (int64_t c = 0; c < WIDTH; c++) panel[p * WIDTH + c] = c < n ? w[p * row + c * column] : 0;
}

/* lines (height, WIDTH) = what lies before a panel, a bias, + a (height, K) times the panel (K, WIDTH) */
static inline __attribute__((always_inline)) void tile(int height, Matrix a, Matrix panel, int64_t k, float *lines) {
    Lanes sums[HEIGHT][2];
    for (int r = 0; r < height; r++)
        for (int c = 0; c < 2; c++) sums[r][c] = *(Lanes *)(panel.at - WIDTH + c * LANES);
    accumulate(height, 2, a, panel, k, sums);
    for (int r = 0; r < height; r++)
        for (int c = 0; c < 2; c++) *(Lanes *)(lines + r * WIDTH + c * LANES) = sums[r][c];
}

/* Rows from .. to of what is found; panels: (N / WIDTH, K + 1, WIDTH), a bias before the rest; sums: (N) */
static inline __attribute__((always_inline)) void multiply(enum Then then, const float *x, const float *panels, const float *with,
                                                           float *out, float *more, float *sums, int64_t from, int64_t to, int64_t k,
                                                           int64_t n) {
    for (int64_t start = from; start < to; start += BLOCK)
        for (int64_t c = 0; c < n; c += WIDTH) {
            int64_t end = to - start < BLOCK ? to : start + BLOCK, wide = n - c < WIDTH ? n - c : WIDTH;
            Matrix panel = {panels + c * (k + 1) + WIDTH, WIDTH, 1};
            float lines[HEIGHT * WIDTH] __attribute__((aligned(64)));
            float near[WIDTH] = {0}; /* sums of few rows, so that rounding takes little from them */
            for (int64_t row = start; row < end; row += HEIGHT) {
                int64_t next = end - row < HEIGHT ? end : row + HEIGHT, at = next - HEIGHT; /* the last tile has rows before it again */
                for (int64_t i = row * n + c; i < next * n; i += n) /* what is read and written then lies too far apart to be foreseen */
                    for (int64_t j = i; j < i + wide; j += 16) {
                        __builtin_prefetch(out + j, 1);
                        if (then == PLUS || then == TIMES) __builtin_prefetch(with + j);
                        if (then == GELU || then == GELU_TANH) __builtin_prefetch(more + j, 1);
                    }
                if (at >= 0)
                    tile(HEIGHT, (Matrix){x + at * k, k, 1}, panel, k, lines);
                else { /* there are too few */
                    at = row;
                    for (int64_t i = row; i < next; i++) tile(1, (Matrix){x + i * k, k, 1}, panel, k, lines + (i - at) * WIDTH);
                }
                for (int64_t i = row; i < next; i++) {
                    int64_t place = i * n + c;
                    if (wide == WIDTH)
                        finish(then, lines + (i - at) * WIDTH, with + place, out + place, more + place, near, WIDTH);
                    else
                        finish(then, lines + (i - at) * WIDTH, with + place, out + place, more + place, near, wide);
                }
            }
            if (then == TIMES)
                for (int64_t i = 0; i < wide; i++) sums[c + i] += near[i];
        }
}

/* Numbers of the space that a product needs */
int64_t product_room(int64_t k, int64_t n, int64_t threads) { return (n + WIDTH - 1) / WIDTH * WIDTH * (k + 1) + threads * n; }

/* x (M, K) times a weight (K, N) of which the distances of entries are given, plus a bias (N) or none, and what then happens: nothing, a
   sum with others (M, N), a product with them, where `more` gets the sums (N) of columns, or GELU */
void product(int64_t then, const float *x, const float *w, int64_t row, int64_t column, const float *bias, const float *with, float *out,
             float *more, float *space, int64_t m, int64_t k, int64_t n, int64_t threads) {
    int64_t panels = (n + WIDTH - 1) / WIDTH, each = WIDTH * (k + 1);
    float *partly = space + panels * each;
    memset(partly, 0, threads * n * sizeof *partly);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; panel++) {
            int64_t c = panel * WIDTH, wide = n - c < WIDTH ? n - c : WIDTH;
            for (int64_t i = 0; i < WIDTH; i++) space[panel * each + i] = bias && i < wide ? bias[c + i] : 0;
            lay(w + c * column, row, column, k, wide, space + panel * each + WIDTH);
        }
        int64_t thread = omp_get_thread_num(), from = first(m, thread), to = first(m, thread + 1);
        float *own = partly + thread * n;
        switch (then) {
        case NOTHING: multiply(NOTHING, x, space, with, out, more, own, from, to, k, n); break;
        case PLUS: multiply(PLUS, x, space, with, out, more, own, from, to, k, n); break;
        case TIMES: multiply(TIMES, x, space, with, out, more, own, from, to, k, n); break;
        case GELU: multiply(GELU, x, space, with, out, more, own, from, to, k, n); break;
        default: multiply(GELU_TANH, x, space, with, out, more, own, from, to, k, n);
        }
    }
    if (then == TIMES) {
        memset(more, 0, n * sizeof *more);
        for (int64_t t = 0; t < threads; t++)
            for (int64_t i = 0; i < n; i++) more[i] += partly[t * n + i];
    }
}
