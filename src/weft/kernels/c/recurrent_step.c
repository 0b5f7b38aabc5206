/* One step of a recurrent layer on a CPU, forward, as decoding needs it (see kernels/c/recurrent_cpu.py).

The weights are read once, where they lie, and threads share out their rows: the time is that of reading them. Each sum is made in one
order, so that a row gives the same to the last bit, alone and beside others. */

#include <omp.h>
#include <string.h>

#include "recurrent_cells.h"
#include "recurrent_layer.h"
#include "tiles.h"

enum { DOWN = 4 }; /* rows of a weight, and rows of inputs, that are taken at once */

/* sums (down, across) += rows of w by rows of x, each K long */
static inline __attribute__((always_inline)) void dots(int down, int across, const float *w, const float *x, int64_t k, float sums[][DOWN]) {
    Lanes parts[DOWN][DOWN];
    for (int i = 0; i < down; i++)
        for (int r = 0; r < across; r++) parts[i][r] = (Lanes){0};
    int64_t whole = k - k % LANES;
    for (int64_t p = 0; p < whole; p += LANES) {
#pragma GCC unroll 4
        for (int i = 0; i < down; i++)
#pragma GCC unroll 4
            for (int r = 0; r < across; r++) parts[i][r] += *(Lanes *)(w + i * k + p) * *(Lanes *)(x + r * k + p);
    }
    for (int i = 0; i < down; i++)
        for (int r = 0; r < across; r++) {
            float sum = 0;
            for (int lane = 0; lane < LANES; lane++) sum += parts[i][r][lane];
            for (int64_t p = whole; p < k; p++) sum += w[i * k + p] * x[r * k + p];
            sums[i][r] += sum;
        }
}

/* out (rows, n), whose rows lie apart, += rows of x (rows, K) by rows of w (n, K) */
static void add_products(int64_t n, int64_t rows, const float *w, const float *x, int64_t k, float *out, int64_t apart) {
    for (int64_t i = 0; i < n; i += DOWN)
        for (int64_t r = 0; r < rows; r += DOWN) {
            int64_t down = n - i < DOWN ? n - i : DOWN, across = rows - r < DOWN ? rows - r : DOWN;
            float sums[DOWN][DOWN] = {{0}};
            const float *weight = w + i * k, *input = x + r * k;
            if (down == DOWN && across == DOWN)
                dots(DOWN, DOWN, weight, input, k, sums);
            else if (down == DOWN && across == 1)
                dots(DOWN, 1, weight, input, k, sums);
            else
                for (int64_t a = 0; a < down; a++)
                    for (int64_t b = 0; b < across; b++) dots(1, 1, weight + a * k, input + b * k, k, (float(*)[DOWN]) & sums[a][b]);
            for (int64_t a = 0; a < down; a++)
                for (int64_t b = 0; b < across; b++) out[(r + b) * apart + i + a] += sums[a][b];
        }
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Called by all threads. more (B, H): also what a second product reads */
static inline __attribute__((always_inline)) void step(enum Cell cell, const Layer *l) {
    int64_t B = l->B, D = l->D, H = l->H, R = l->R, G = l->G;
    int twice = cell == CHO_GRU || l->weight_hr;
    float lines[GATES * APART], *h = twice ? l->more : l->out;
#pragma omp for schedule(static)
    for (int64_t block = 0; block < (H + LANES - 1) / LANES; block++) {
        int64_t u = block * LANES, n = least(LANES, H - u);
        for (int64_t i = 0; i < B * G; i++)
            for (int64_t j = i % G * H + u, end = j + n; j < end; j++)
                l->gates[i / G * G * H + j] = l->bias_ih[j] + (cell == GRU && j >= 2 * H ? 0 : l->bias_hh[j]);
        for (int64_t g = 0; g < G; g++) add_products(n, B, l->weight_ih + (g * H + u) * D, l->x, D, l->gates + g * H + u, G * H);
        for (int64_t r = 0; r < B; r += HEIGHT) {
            memset(lines, 0, sizeof lines);
            for (int64_t g = 0; g < (cell == CHO_GRU ? 2 : G); g++)
                add_products(n, least(HEIGHT, B - r), l->weight_hh + (g * H + u) * R, l->h0 + r * R, R, lines + g * APART, UNITS);
            for (int64_t row = r; row < least(r + HEIGHT, B); row++)
                cell_forward(cell, n, H, lines + (row - r) * UNITS, l->gates + row * G * H + u, l->h0 + row * R + u, l->c0 + row * H + u,
                             l->peephole + u, l->bias_hh + 2 * H + u, l->cell_clip, l->c_last + row * H + u, l->more + row * H + u, h + row * H + u);
        }
    }
    if (!twice) return;
#pragma omp for schedule(static)
    for (int64_t block = 0; block < (R + LANES - 1) / LANES; block++) {
        int64_t u = block * LANES, n = least(LANES, R - u);
        const float *weight = cell == CHO_GRU ? l->weight_hh + (2 * H + u) * R : l->weight_hr + u * H;
        for (int64_t r = 0; r < B; r += HEIGHT) {
            memset(lines, 0, APART * sizeof *lines);
            add_products(n, least(HEIGHT, B - r), weight, h + r * H, H, lines, UNITS);
            for (int64_t row = r; row < least(r + HEIGHT, B); row++) {
                float *line = lines + (row - r) * UNITS, *out = l->out + row * R + u;
                if (cell == CHO_GRU)
                    cho_forward(n, H, line, l->gates + row * G * H + u, l->h0 + row * R + u, out);
                else
                    for (int64_t i = 0; i < n; i++) out[i] = clipped(line[i], l->projection_clip);
            }
        }
    }
}

void recurrent_step(const Layer *l) {
#pragma omp parallel num_threads(l->threads)
    switch (l->cell) {
    case RNN: step(RNN, l); break;
    case LSTM: step(LSTM, l); break;
    case PEEPHOLE: step(PEEPHOLE, l); break;
    case COUPLED: step(COUPLED, l); break;
    case GRU: step(GRU, l); break;
    case CHO_GRU: step(CHO_GRU, l); break;
    }
}
