/* A recurrent layer over all its steps on a CPU, forward and backward (see kernels/c/recurrent_cpu.py).

A thread takes its rows through all steps, without waiting for another at any of them, so that a machine that is busy with something else
slows it down by what it takes and not more. Products of the inputs, and the gradients of weights, are large products over all steps and
are made outside. Rows come in the order of their lengths, the longest first, so that the rows that a step concerns are the first ones.
What products read is kept in fp32 or bf16 (kept.h), all else in fp32. Shapes: B rows, T steps, H width, R outputs (H, or a projection), G
gates. */

#include <math.h>
#include <string.h>

#include "kept.h"
#include "panels.h"
#include "recurrent_cells.h"
#include "recurrent_layer.h"
#include "tiles.h"

/* Rows of one thread: every so many-th of the order */
typedef struct {
    const int64_t *order;
    int64_t number, every;
} Own;

static inline int64_t row_of(Own own, int64_t i) { return own.order[i * own.every]; }

static inline Own own_rows(const Layer *l, int64_t thread) {
    return (Own){l->order + thread, thread < l->B ? (l->B - 1 - thread) / l->threads + 1 : 0, l->threads};
}

/* lines (rows, UNITS) = words a (rows, words) times a panel (words, UNITS), of which the first vector or both are wanted */
static inline __attribute__((always_inline)) void rows_tile(int height, int width, const float *a, int64_t apart, const float *panel,
                                                            int64_t words, float *lines) {
    Lanes sums[HEIGHT][2];
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) sums[r][c] = (Lanes){0};
    accumulate(PAIR, height, width, (Matrix){a, apart, 1}, (Matrix){panel, UNITS, 1}, words, sums);
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++) *(Lanes *)(lines + r * UNITS + c * LANES) = sums[r][c];
}

static void __attribute__((noinline)) rows_product(int64_t rows, int64_t n, const float *a, int64_t apart, const float *panel, int64_t words,
                                                   float *lines) {
    switch (2 * rows + (n > LANES)) {
#define OF_ROWS(rows)                                                           \
    case 2 * rows: rows_tile(rows, 1, a, apart, panel, words, lines); break;     \
    case 2 * rows + 1: rows_tile(rows, 2, a, apart, panel, words, lines); break;
        OF_ROWS(1) OF_ROWS(2) OF_ROWS(3) OF_ROWS(4) OF_ROWS(5) OF_ROWS(6)
#ifdef __AVX512F__
        OF_ROWS(7) OF_ROWS(8) OF_ROWS(9) OF_ROWS(10) OF_ROWS(11) OF_ROWS(12)
#endif
    }
}

static inline int64_t blocks_of(int64_t n) { return (n + UNITS - 1) / UNITS; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A weight (N, K) whose rows are columns of panels, or (K, N) whose columns are, in blocks of UNITS columns; G of them beside each other */
typedef struct {
    const float *weight;
    int64_t n, k, beside, turned;
} Weight;

static inline int64_t room_of(Weight w) { return blocks_of(w.n) * w.beside * panel_size(w.k); }
static inline const float *panel_of(const float *panels, Weight w, int64_t c, int64_t beside) {
    return panels + (c / UNITS * w.beside + beside) * panel_size(w.k);
}

/* Called by all threads; space: a thread's own */
static void lay_all(Weight w, float *panels, float *space) {
    int64_t number = blocks_of(w.n) * w.beside;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < number; i++) {
        int64_t c = i / w.beside * UNITS, gate = i % w.beside;
        const float *from = w.turned ? w.weight + (gate * w.n + c) * w.k : w.weight + c;
        lay(from, w.turned ? 1 : w.n, w.turned ? w.k : 1, w.k, least(UNITS, w.n - c), panels + i * panel_size(w.k), space);
    }
}

/* The weights of a pass, the first from the products' rows to gates, and where a thread's own space begins */
typedef struct {
    Weight main, inner, projection;
    const float *panels, *inner_panels, *projection_panels;
    int64_t shared, own, h, more, wide, sums;
} Plan;

static Plan plan_of(const Layer *l, int back) {
    int64_t H = l->H, R = l->R, G = l->G, cho = l->cell == CHO_GRU, rows = (l->B - 1) / l->threads + 1;
    Plan p = {0};
    if (back) {
        p.main = (Weight){l->weight_hh, R, (cho ? 2 : G) * H, 1, 0};
        if (cho) p.inner = (Weight){l->weight_hh + 2 * H * R, R, H, 1, 0};
        if (l->weight_hr) p.projection = (Weight){l->weight_hr, H, R, 1, 0};
    } else {
        p.main = (Weight){l->weight_hh, H, R, G, 1};
        if (l->weight_hr) p.projection = (Weight){l->weight_hr, R, H, 1, 1};
    }
    p.panels = l->space, p.inner_panels = p.panels + room_of(p.main), p.projection_panels = p.inner_panels + room_of(p.inner);
    p.shared = room_of(p.main) + room_of(p.inner) + room_of(p.projection);
    p.h = distance(R), p.more = distance(H), p.wide = distance(G * H), p.sums = padded((G + 4) * H);
    int64_t packing = LANES * padded(words_of(H > R ? H : R)), forth = 2 * p.h + p.more;
    int64_t back_row = padded(R) + 2 * padded(H) + p.h + p.more + p.wide;
    p.own = (back ? p.sums + rows * back_row : rows * forth) + packing;
    return p;
}

int64_t recurrent_room(const Layer *l, int64_t back) {
    Plan p = plan_of(l, back);
    return p.shared + l->threads * p.own;
}

static inline const float *before(const float *of_steps, const float *first, const Layer *l, int64_t row, int64_t t, int64_t n) {
    return t ? of_steps + (row * l->T + t - 1) * n : first + row * n;
}

static inline __attribute__((always_inline)) void forward_steps(enum Cell cell, const Layer *l, const Plan *p, Own own, float *space) {
    int64_t H = l->H, R = l->R, G = l->G, T = l->T, products = cell == CHO_GRU ? 2 : G, active = own.number;
    float *h[2] = {space, space + own.number * p->h}, *inner = h[1] + own.number * p->h;
    int projected = l->weight_hr != NULL;
    memset(space, 0, own.number * (2 * p->h + p->more) * sizeof *space);
    for (int64_t i = 0; i < own.number; i++) keep(l->h0 + row_of(own, i) * R, (Kept *)(h[0] + i * p->h), R);
    for (int64_t t = 0; t < T; t++) {
        float *now = h[t % 2], *next = h[(t + 1) % 2], lines[GATES * APART] __attribute__((aligned(64))), after[UNITS];
        while (active && l->lengths[row_of(own, active - 1)] <= t) active--;
        if (!active) break;
        for (int64_t u = 0; u < H; u += UNITS)
            for (int64_t r = 0; r < active; r += HEIGHT) {
                int64_t n = least(UNITS, H - u), rows = least(HEIGHT, active - r);
                for (int64_t g = 0; g < products; g++)
                    rows_product(rows, n, now + r * p->h, p->h, panel_of(p->panels, p->main, u, g), words_of(R), lines + g * APART);
                for (int64_t i = 0; i < rows; i++) {
                    int64_t row = row_of(own, r + i), step = row * T + t;
                    const float *h_before = projected ? NULL : before(l->out, l->h0, l, row, t, R) + u;
                    const float *c_before = with_memory(cell) ? before(l->c, l->c0, l, row, t, H) + u : NULL;
                    float *more = l->more + step * H + u, *kept = inner + (r + i) * p->more;
#define FORWARD(n)                                                                                                          \
    cell_forward(cell, n, H, lines + i * UNITS, l->gates + step * G * H + u, h_before, c_before, l->peephole + u,              \
                 l->bias_hh + 2 * H + u, l->cell_clip, l->c + step * H + u, more, after)
                    if (n == UNITS) /* a loop whose length is known takes less */
                        FORWARD(UNITS);
                    else
                        FORWARD(n);
                    if (cell == CHO_GRU || projected)
                        memcpy(more, after, n * sizeof *more), keep(after, (Kept *)kept + u, n);
                    else
                        memcpy(l->out + step * R + u, after, n * sizeof *more), keep(after, (Kept *)(next + (r + i) * p->h) + u, n);
                }
            }
        for (int64_t u = 0; u < (cell == CHO_GRU || projected ? R : 0); u += UNITS)
            for (int64_t r = 0; r < active; r += HEIGHT) {
                int64_t n = least(UNITS, R - u), rows = least(HEIGHT, active - r);
                const float *panel = projected ? panel_of(p->projection_panels, p->projection, u, 0) : panel_of(p->panels, p->main, u, 2);
                rows_product(rows, n, inner + r * p->more, p->more, panel, words_of(H), lines);
                for (int64_t i = 0; i < rows; i++) {
                    int64_t row = row_of(own, r + i), step = row * T + t;
                    float *out = l->out + step * R + u;
                    if (cell == CHO_GRU)
                        cho_forward(n, H, lines + i * UNITS, l->gates + step * G * H + u, before(l->out, l->h0, l, row, t, R) + u, out);
                    else
                        for (int64_t j = 0; j < n; j++) out[j] = clipped(lines[i * UNITS + j], l->projection_clip);
                    keep(out, (Kept *)(next + (r + i) * p->h) + u, n);
                }
            }
    }
    for (int64_t i = 0; i < own.number; i++) {
        int64_t row = row_of(own, i), end = least(l->lengths[row], T);
        if (end <= 0) continue;
        memcpy(l->h_last + row * R, l->out + (row * T + end - 1) * R, R * sizeof(float));
        if (with_memory(cell)) memcpy(l->c_last + row * H, l->c + (row * T + end - 1) * H, H * sizeof(float));
    }
}

/* d (rows, n), whose rows lie apart, += words a (rows, words) times all panels of a weight, or = them */
static void all_products(int64_t rows, const float *a, int64_t apart, const float *panels, Weight w, float *d, int64_t d_apart, int more) {
    float lines[APART] __attribute__((aligned(64)));
    for (int64_t c = 0; c < w.n; c += UNITS)
        for (int64_t r = 0; r < rows; r += HEIGHT) {
            int64_t n = least(UNITS, w.n - c), high = least(HEIGHT, rows - r);
            rows_product(high, n, a + r * apart, apart, panel_of(panels, w, c, 0), words_of(w.k), lines);
            for (int64_t i = 0; i < high; i++) {
                float *restrict to = d + (r + i) * d_apart + c, *restrict line = lines + i * UNITS;
                for (int64_t j = 0; j < n; j++) to[j] = more ? to[j] + line[j] : line[j];
            }
        }
}

static inline __attribute__((always_inline)) void backward_steps(enum Cell cell, const Layer *l, const Plan *p, Own own, float *space) {
    int64_t H = l->H, R = l->R, G = l->G, T = l->T, active = 0, number = own.number;
    float *sums = space, *peephole_sums = sums + (G + 1) * H, *dh = sums + p->sums, *dc = dh + number * padded(R);
    float *dm = dc + number * padded(H), *rows_h = dm + number * padded(H), *rows_m = rows_h + number * p->h;
    float *rows_g = rows_m + number * p->more;
    int projected = l->weight_hr != NULL;
    memset(space, 0, (p->sums + number * (padded(R) + 2 * padded(H) + p->h + p->more + p->wide)) * sizeof *space);
    for (int64_t i = 0; i < number; i++) {
        memcpy(dh + i * padded(R), l->dh + row_of(own, i) * R, R * sizeof *dh);
        if (with_memory(cell)) memcpy(dc + i * padded(H), l->dc + row_of(own, i) * H, H * sizeof *dc);
    }
    for (int64_t t = T - 1; t >= 0; t--) {
        while (active < number && l->lengths[row_of(own, active)] > t) active++;
        for (int64_t i = 0; i < active; i++) {
            int64_t step = row_of(own, i) * T + t;
            float *restrict to = dh + i * padded(R);
            for (int64_t j = 0; j < R; j++) to[j] += l->dout[step * R + j];
            if (!projected) continue;
            for (int64_t j = 0; j < R; j++) to[j] = fabsf(l->out[step * R + j]) >= l->projection_clip ? 0 : to[j];
            keep(to, l->dprojected + step * R, R), keep(to, (Kept *)(rows_h + i * p->h), R);
            memset(to, 0, R * sizeof *to);
        }
        if (projected) all_products(active, rows_h, p->h, p->projection_panels, p->projection, dm, padded(H), 0);
        for (int64_t i = 0; i < active; i++)
            for (int64_t u = 0; u < H; u += UNITS) {
                int64_t n = least(UNITS, H - u), row = row_of(own, i), step = row * T + t;
                float grads[(GATES + 1) * UNITS], *dmore = grads + GATES * UNITS;
                const float *h = projected ? NULL : before(l->out, l->h0, l, row, t, R) + u;
                const float *c = with_memory(cell) ? before(l->c, l->c0, l, row, t, H) + u : NULL;
                float *d = (projected ? dm + i * padded(H) : dh + i * padded(R)) + u;
#define BACKWARD(n)                                                                                                            \
    cell_backward(cell, n, H, l->gates + step * G * H + u, h, c, l->c + step * H + u, l->peephole + u, l->cell_clip, d,           \
                  dc + i * padded(H) + u, l->more + step * H + u, grads, dmore, peephole_sums + u)
                if (n == UNITS)
                    BACKWARD(UNITS);
                else
                    BACKWARD(n);
                Kept *words = (Kept *)(rows_g + i * p->wide) + u;
                for (int64_t g = cell == CHO_GRU; g < G; g++) {
                    float *restrict sum = sums + g * H + u, *restrict grad = grads + g * UNITS;
                    keep(grad, l->dgates + (step * G + g) * H + u, n);
                    keep(cell == GRU && g == 2 ? dmore : grad, words + g * H, n);
                    if (cell == GRU) keep(g == 2 ? dmore : grad, l->dproducts + (step * G + g) * H + u, n);
                    for (int64_t j = 0; j < n; j++) sum[j] += grad[j];
                }
                if (cell == CHO_GRU) keep(grads + 2 * UNITS, (Kept *)(rows_m + i * p->more) + u, n);
                for (int64_t j = 0; j < (cell == GRU ? n : 0); j++) sums[G * H + u + j] += dmore[j];
            }
        if (cell == CHO_GRU) {
            all_products(active, rows_m, p->more, p->inner_panels, p->inner, dm, padded(H), 0);
            for (int64_t i = 0; i < active; i++)
                for (int64_t u = 0; u < H; u += UNITS) {
                    int64_t n = least(UNITS, H - u), row = row_of(own, i), step = row * T + t;
                    float grads[UNITS];
                    cho_backward(n, l->gates + step * G * H + u, before(l->out, l->h0, l, row, t, R) + u, dm + i * padded(H) + u,
                                 dh + i * padded(R) + u, grads);
                    keep(grads, l->dgates + step * G * H + u, n), keep(grads, (Kept *)(rows_g + i * p->wide) + u, n);
                    for (int64_t j = 0; j < n; j++) sums[u + j] += grads[j];
                }
        }
        all_products(active, rows_g, p->wide, p->panels, p->main, dh, padded(R), 1);
    }
    for (int64_t i = 0; i < number; i++) {
        memcpy(l->dh + row_of(own, i) * R, dh + i * padded(R), R * sizeof *dh);
        if (with_memory(cell)) memcpy(l->dc + row_of(own, i) * H, dc + i * padded(H), H * sizeof *dc);
    }
}

#define OF_CELLS(steps, ...)                              \
    switch (l->cell) {                                    \
    case RNN: steps(RNN, __VA_ARGS__); break;             \
    case LSTM: steps(LSTM, __VA_ARGS__); break;           \
    case PEEPHOLE: steps(PEEPHOLE, __VA_ARGS__); break;   \
    case COUPLED: steps(COUPLED, __VA_ARGS__); break;     \
    case GRU: steps(GRU, __VA_ARGS__); break;             \
    case CHO_GRU: steps(CHO_GRU, __VA_ARGS__); break;     \
    }

void recurrent_forward(const Layer *l) {
    Plan p = plan_of(l, 0);
#pragma omp parallel num_threads(l->threads)
    {
        float *own = l->space + p.shared + omp_get_thread_num() * p.own;
        lay_all(p.main, (float *)p.panels, own);
        if (l->weight_hr) lay_all(p.projection, (float *)p.projection_panels, own);
        for (int64_t thread = omp_get_thread_num(); thread < l->threads; thread += omp_get_num_threads()) {
            OF_CELLS(forward_steps, l, &p, own_rows(l, thread), l->space + p.shared + thread * p.own)
        }
    }
}

void recurrent_backward(const Layer *l) {
    Plan p = plan_of(l, 1);
    int64_t H = l->H, biases = (l->G + 1) * H;
#pragma omp parallel num_threads(l->threads)
    {
        float *own = l->space + p.shared + omp_get_thread_num() * p.own;
        lay_all(p.main, (float *)p.panels, own);
        if (l->cell == CHO_GRU) lay_all(p.inner, (float *)p.inner_panels, own);
        if (l->weight_hr) lay_all(p.projection, (float *)p.projection_panels, own);
        for (int64_t thread = omp_get_thread_num(); thread < l->threads; thread += omp_get_num_threads()) {
            OF_CELLS(backward_steps, l, &p, own_rows(l, thread), l->space + p.shared + thread * p.own)
        }
    }
    for (int64_t t = 0; t < l->threads; t++)
        for (int64_t i = 0; i < biases + 3 * H; i++) {
            float *to = i < biases ? l->bias_grads + i : l->peephole_grads + i - biases, sum = l->space[p.shared + t * p.own + i];
            *to = t ? *to + sum : sum;
        }
}
