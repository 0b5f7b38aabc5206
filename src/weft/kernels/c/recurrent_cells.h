/* The equations of recurrent cells, forward and backward, of n units of one row at one step (see nn/recurrent.py). Included by
recurrent.c; `cell` is known where they are inlined, so that a loop of vectors is made for each. */

#pragma once
#include <math.h>

#include "exponential.h"
#include "tiles.h"

enum Cell { RNN, LSTM, PEEPHOLE, COUPLED, GRU, CHO_GRU };
enum { UNITS = 2 * LANES, APART = HEIGHT * UNITS, GATES = 4 }; /* that are taken at once; between gates of a tile's products; at most */

static inline int with_memory(enum Cell cell) { return cell == LSTM || cell == PEEPHOLE || cell == COUPLED; }

static inline float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

/* tanh; to 1e-7, as numbers near 0 lose digits */
static inline float squash(float x) {
    float e = decay(-2 * fabsf(x)), y = (1 - e) / (1 + e);
    return x < 0 ? -y : y;
}

static inline float clipped(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

/* gates (G, H apart): products of the inputs, which become the gates; lines (G, APART): products of h, the output before.
   more: U h + b of a GRU's n; next_h: after the first half of Cho's, r h */
static inline __attribute__((always_inline)) void cell_forward(enum Cell cell, int64_t n, int64_t H, const float *lines, float *gates,
                                                               const float *h, const float *c, const float *peephole, const float *bias,
                                                               float limit, float *next_c, float *more, float *next_h) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        if (cell == RNN) next_h[i] = gates[i] = squash(gates[i] + lines[i]);
        if (cell == LSTM || cell == PEEPHOLE) {
            float in = gates[i] + lines[i], forget = gates[H + i] + lines[APART + i];
            float new = squash(gates[2 * H + i] + lines[2 * APART + i]), out = gates[3 * H + i] + lines[3 * APART + i];
            if (cell == PEEPHOLE) in += peephole[i] * c[i], forget += peephole[H + i] * c[i];
            in = sigmoid(in), forget = sigmoid(forget);
            float memory = clipped(forget * c[i] + in * new, limit);
            if (cell == PEEPHOLE) out += peephole[2 * H + i] * memory;
            out = sigmoid(out);
            gates[i] = in, gates[H + i] = forget, gates[2 * H + i] = new, gates[3 * H + i] = out;
            next_c[i] = memory, next_h[i] = out * squash(memory);
        }
        if (cell == COUPLED) {
            float in = sigmoid(gates[i] + lines[i]), new = squash(gates[H + i] + lines[APART + i]);
            float out = sigmoid(gates[2 * H + i] + lines[2 * APART + i]), memory = clipped(c[i] + in * (new - c[i]), limit);
            gates[i] = in, gates[H + i] = new, gates[2 * H + i] = out;
            next_c[i] = memory, next_h[i] = out * squash(memory);
        }
        if (cell == GRU) {
            float reset = sigmoid(gates[i] + lines[i]), keep = sigmoid(gates[H + i] + lines[APART + i]);
            float inner = lines[2 * APART + i] + bias[i], new = squash(gates[2 * H + i] + reset * inner);
            gates[i] = reset, gates[H + i] = keep, gates[2 * H + i] = new, more[i] = inner;
            next_h[i] = new + keep * (h[i] - new);
        }
        if (cell == CHO_GRU) {
            float reset = sigmoid(gates[i] + lines[i]), keep = sigmoid(gates[H + i] + lines[APART + i]);
            gates[i] = reset, gates[H + i] = keep, next_h[i] = reset * h[i];
        }
    }
}

/* The second half of Cho's, from the products of r h */
static inline __attribute__((always_inline)) void cho_forward(int64_t n, int64_t H, const float *line, float *gates, const float *h,
                                                              float *next_h) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float new = gates[2 * H + i] = squash(gates[2 * H + i] + line[i]);
        next_h[i] = new + gates[H + i] * (h[i] - new);
    }
}

/* dh: gradient of the output, which becomes what goes straight to the output before; dc: that of c, which becomes that of the one before.
   grads (G, UNITS): of what the gates are made of; more: what a GRU kept, then the gradient of it. peephole_grads (3, H apart): sums */
static inline __attribute__((always_inline)) void cell_backward(enum Cell cell, int64_t n, int64_t H, const float *gates, const float *h,
                                                                const float *c, const float *next_c, const float *peephole, float limit,
                                                                float *dh, float *dc, const float *more, float *grads, float *dmore,
                                                                float *peephole_grads) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        if (cell == RNN) grads[i] = dh[i] * (1 - gates[i] * gates[i]), dh[i] = 0;
        if (cell == LSTM || cell == PEEPHOLE) {
            float in = gates[i], forget = gates[H + i], new = gates[2 * H + i], out = gates[3 * H + i], memory = next_c[i];
            float squashed = squash(memory), dout = dh[i] * squashed * out * (1 - out);
            float dmemory = dc[i] + dh[i] * out * (1 - squashed * squashed);
            if (cell == PEEPHOLE) dmemory += dout * peephole[2 * H + i];
            if (fabsf(memory) >= limit) dmemory = 0;
            float din = dmemory * new * in * (1 - in), dforget = dmemory * c[i] * forget * (1 - forget);
            grads[i] = din, grads[UNITS + i] = dforget, grads[2 * UNITS + i] = dmemory * in * (1 - new * new), grads[3 * UNITS + i] = dout;
            dc[i] = dmemory * forget, dh[i] = 0;
            if (cell == PEEPHOLE) {
                dc[i] += din * peephole[i] + dforget * peephole[H + i];
                peephole_grads[i] += din * c[i], peephole_grads[H + i] += dforget * c[i], peephole_grads[2 * H + i] += dout * memory;
            }
        }
        if (cell == COUPLED) {
            float in = gates[i], new = gates[H + i], out = gates[2 * H + i], memory = next_c[i], squashed = squash(memory);
            float dmemory = dc[i] + dh[i] * out * (1 - squashed * squashed);
            if (fabsf(memory) >= limit) dmemory = 0;
            grads[i] = dmemory * (new - c[i]) * in * (1 - in), grads[UNITS + i] = dmemory * in * (1 - new * new);
            grads[2 * UNITS + i] = dh[i] * squashed * out * (1 - out);
            dc[i] = dmemory * (1 - in), dh[i] = 0;
        }
        if (cell == GRU) {
            float reset = gates[i], keep = gates[H + i], new = gates[2 * H + i], dnew = dh[i] * (1 - keep) * (1 - new * new);
            grads[i] = dnew * more[i] * reset * (1 - reset), grads[UNITS + i] = dh[i] * (h[i] - new) * keep * (1 - keep);
            grads[2 * UNITS + i] = dnew, dmore[i] = dnew * reset;
            dh[i] *= keep;
        }
        if (cell == CHO_GRU) { /* r follows when the products of n's are known */
            float keep = gates[H + i], new = gates[2 * H + i];
            grads[UNITS + i] = dh[i] * (h[i] - new) * keep * (1 - keep), grads[2 * UNITS + i] = dh[i] * (1 - keep) * (1 - new * new);
            dh[i] *= keep;
        }
    }
}

/* The other half of Cho's, from the gradient of r h */
static inline __attribute__((always_inline)) void cho_backward(int64_t n, const float *reset, const float *h, const float *line, float *dh,
                                                               float *grads) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        grads[i] = line[i] * h[i] * reset[i] * (1 - reset[i]);
        dh[i] += line[i] * reset[i];
    }
}
