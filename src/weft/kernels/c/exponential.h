/* e^x in a form that compilers turn into vectors; included by decode.c, passes.c and products.c. */

#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float from_bits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* e^x of x up to 88, by the series around the nearest power of two; libm's is exact to a bit more, and one at a time. NaN stays */
static inline float decay(float x) {
    x = -87.0f > x ? -87.0f : x;
    float whole = rintf(x * 1.44269504f), r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float series = 1 / 720.0f + r * (1 / 5040.0f);
    series = 1 + r * (1 + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r * series)))));
    return series * from_bits((uint32_t)((int32_t)whole + 127) << 23);
}

/* e^x of any x; two limits take a compiler's vectors many operations more than one */
static inline float exponential(float x) { return decay(88.0f < x ? 88.0f : x); }
