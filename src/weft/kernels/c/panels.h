/* How the factors of a product are laid out in words (see kept.h), so that what a tile of it reads lies together: rows, and panels of
columns of a weight. Included by products.c and recurrent.c. */

#pragma once
#include <string.h>

#include "kept.h"
#include "tiles.h"

enum { WIDTH = 2 * LANES }; /* columns of a panel */

/* Rows (rows, K), their words beside each other with zeros behind, at another distance */
static inline __attribute__((always_inline)) void line_up(const void *x, int full, int64_t row, int64_t rows, int64_t k, float *to,
                                                          int64_t apart) {
    for (int64_t r = 0; r < rows; r++) {
        Kept *restrict line = (Kept *)(to + r * apart);
        if (full)
            keep((const float *)x + r * row, line, k);
        else
            memcpy(line, (const Kept *)x + r * row, k * sizeof *line);
        for (int64_t i = k; i < PAIR * padded(words_of(k)); i++) line[i] = narrow(0);
    }
}

/* Words of rows' n columns beside each other with zeros behind, as panels (words, width) that lie apart */
static inline __attribute__((always_inline)) void pair_up(const void *x, int full, int64_t row, int64_t k, int64_t n, int64_t width,
                                                          float *panels, int64_t apart) {
    for (int64_t p = 0; p < k; p += PAIR)
        for (int64_t c = 0; c < n; c += width) {
            Word *restrict line = (Word *)panels + c / width * apart + p / PAIR * width;
            int64_t one = p * row + c, other = PAIR > 1 ? one + row : one, wide = n - c < width ? n - c : width;
            if (p + PAIR <= k && wide == width)
                for (int64_t i = 0; i < width; i++) line[i] = word(kept_at(x, full, one + i), kept_at(x, full, other + i));
            else
                for (int64_t i = 0; i < width; i++)
                    line[i] = i < wide ? word(kept_at(x, full, one + i), p + PAIR <= k ? kept_at(x, full, other + i) : narrow(0)) : 0;
        }
}

/* n columns of a weight (K, N), or of one that is turned, as a panel (words, WIDTH); space: (LANES, padded words) */
static void lay(const float *w, int64_t row, int64_t column, int64_t k, int64_t n, float *panel, float *space) {
    if (column == 1) {
        pair_up(w, 1, row, k, n, WIDTH, panel, 0);
        return;
    }
    int64_t wide = padded(words_of(k));
    for (int64_t c = 0; c < WIDTH; c += LANES) {
        int64_t some = n - c < 0 ? 0 : n - c < LANES ? n - c : LANES;
        line_up(w + c * column, 1, column, some, k, space, wide);
        for (int64_t p = 0; p < wide; p += LANES) turn_square(space + p, wide, some, panel + p * WIDTH + c, WIDTH);
    }
}

/* The distance of rows in words, such that rows do not lie pages apart, and the words of a panel with a bias before it */
static inline int64_t distance(int64_t k) { return padded(words_of(k)) + LANES; }
static inline int64_t panel_size(int64_t k) { return WIDTH * (padded(words_of(k)) + 1); }
