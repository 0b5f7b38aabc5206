/* What a recurrent layer reads and writes, as recurrent_cpu.py tells it; NULL for what a cell has not, or a pass does not need. Shapes: B
rows, T steps, D inputs, H width, R outputs (H, or a projection), G gates. Included by recurrent.c and recurrent_step.c. */

#pragma once
#include <stdint.h>

#include "kept.h"

typedef struct {
    int64_t cell, B, T, D, H, R, G, threads;
    float cell_clip, projection_clip;
    const int64_t *order, *lengths;                                        /* (B): rows, the longest first, and how long each row is */
    const float *x, *weight_ih, *weight_hh, *weight_hr;                    /* (B, T, D), (G H, D), (G H, R), (R, H) */
    const float *peephole, *bias_ih, *bias_hh;                             /* (3, H), (G H), (G H) */
    const float *h0, *c0;                                                  /* (B, R), (B, H) */
    float *gates, *out, *c, *more;                                         /* (B, T, …): G H, R, H, H */
    float *h_last, *c_last;                                                /* (B, R), (B, H), which hold the first state */
    const float *dout;                                                     /* (B, T, R) */
    float *dh, *dc;                                                        /* (B, R), (B, H): of the last state, then of the first */
    Kept *dgates, *dproducts, *dprojected;                                 /* (B, T, …): G H, G H of a GRU's products of h, R */
    float *bias_grads, *peephole_grads;                                    /* (G + 1, H): the last of a GRU's n; (3, H) */
    float *space;
} Layer;
