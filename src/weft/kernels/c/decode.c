/* One more token of a text, through a stack of Transformer blocks to the logits (see kernels/c/decode_stack.py).

The time of a step is that of reading the weights: each is read once, in the order in which it lies in memory, which a processor fetches
ahead best. What is done between two products is little: rather than wait for one another, all threads do it for themselves.

Shapes: D width, H heads in G groups (KV heads), K head width, S positions of the cache. All other numbers are float. */

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "exponential.h"

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { GELU, GELU_TANH, RELU, SQUARED_RELU, SILU };
enum { BASE = 128, HIGHEST = 63 }; /* of the two digits of an input to weights of 8 bits, as in kernels/int8_linear.py */
#define PATIENCE 20000             /* looks at what is waited for, some 20 microseconds */
#define LINE 16                    /* numbers of a cache line, which two threads should not both write */

typedef struct {
    const void *data; /* or NULL */
    int64_t half;     /* of bfloat16, else of float */
} Vector;
typedef struct {
    Vector scale, shift;
    double least; /* added to the variance */
    int64_t kind;
} Norm;
typedef struct {
    const void *weight; /* (outputs, inputs): bfloat16, or where there is a scale for each output, int8 */
    const float *scale;
    Vector bias;
    int64_t inputs, outputs;
} Linear;
typedef struct {
    Norm norm1, norm2;
    Linear qkv, out, up, down;
    int64_t window; /* positions that are looked back at; 0 for all */
} Layer;
typedef struct {
    const Layer *layers;
    Norm norm;
    Linear head;
    int64_t count, width, heads, kv_heads, head_width, widest, pre, gated, activation;
} Stack;
typedef struct { /* keys and values (2, L, G, S, K), by the distances between their parts */
    float *parts;
    int64_t kind, layer, group, length;
} Store;
typedef struct { /* what a product reads */
    float *wide;    /* for bfloat16: the inputs of even number, then the odd ones */
    int8_t *digits; /* for int8: the high digits, then the low ones */
    float unit;     /* of a low digit */
    int32_t sums[2];
} Input;

static inline float entry(Vector v, int64_t i) {
    return v.half ? from_bits((uint32_t)((const uint16_t *)v.data)[i] << 16) : ((const float *)v.data)[i];
}

/* To 1.5e-7 (Abramowitz and Stegun, 7.1.26) */
static inline float error_function(float x) {
    float a = fabsf(x), t = 1 / (1 + 0.3275911f * a);
    float series = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return copysignf(1 - series * decay(-a * a), x);
}

static void activate(int64_t kind, float *x, int64_t n) {
    if (kind == GELU)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) x[i] = 0.5f * x[i] * (1 + error_function(x[i] * 0.70710678f));
    else if (kind == GELU_TANH)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) x[i] /= 1 + exponential(-1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    else if (kind == SILU)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) x[i] /= 1 + exponential(-x[i]);
    else
        for (int64_t i = 0; i < n; i++) x[i] = x[i] > 0 ? (kind == RELU ? x[i] : x[i] * x[i]) : 0;
}

static void normalise(const Norm *norm, const float *x, float *out, int64_t n) {
    float mean = 0, squares = 0;
    if (norm->kind == LAYER_NORM) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < n; i++) mean += x[i];
        mean /= n;
    }
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    float by = norm->kind == NO_NORM ? 1 : 1 / sqrtf(squares / n + (float)norm->least);
    for (int64_t i = 0; i < n; i++) {
        float scaled = (x[i] - mean) * by;
        out[i] = (norm->scale.data ? scaled * entry(norm->scale, i) : scaled) + (norm->shift.data ? entry(norm->shift, i) : 0);
    }
}

static void write_digits(const float *x, Input *in, int64_t n) {
    float top = 1e-30f;
    int32_t high_sum = 0, low_sum = 0;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    int8_t *high = in->digits, *low = high + n;
    float to_high = HIGHEST / top;
#pragma omp simd reduction(+ : high_sum, low_sum)
    for (int64_t i = 0; i < n; i++) {
        float first = rintf(x[i] * to_high), second = rintf(BASE * (x[i] * to_high - first));
        high_sum += high[i] = (int8_t)first;
        low_sum += low[i] = (int8_t)second;
    }
    in->unit = top / (HIGHEST * BASE), in->sums[0] = high_sum, in->sums[1] = low_sum;
}

/* x as a layer's product wants it */
static void prepare(const Linear *layer, const float *x, Input *in) {
    int64_t n = layer->inputs;
    if (layer->scale)
        write_digits(x, in, n);
    else
        for (int64_t i = 0; i < n / 2; i++) in->wide[i] = x[2 * i], in->wide[n / 2 + i] = x[2 * i + 1];
}

/* Two numbers of bfloat16 are the halves of one word, each a float without its last 16 bits */
static float half_product(const uint32_t *weight, const Input *in, int64_t n) {
    const float *even = in->wide, *odd = even + n / 2;
    float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < n / 2; i++) {
        a += from_bits(weight[i] << 16) * even[i];
        b += from_bits(weight[i] & 0xffff0000u) * odd[i];
    }
    return a + b;
}

#ifdef __AVX2__
static inline void add_up(__m256i as, __m256i bs, int32_t *a, int32_t *b) {
    __m256i pairs = _mm256_hadd_epi32(as, bs), fours = _mm256_hadd_epi32(pairs, pairs);
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    *a = _mm_cvtsi128_si32(sums), *b = _mm_extract_epi32(sums, 1);
}
#endif

/* Processors multiply bytes without a sign by such with one: weights are taken 128 too large, which the sums of the digits set right */
static float whole_product(const int8_t *weight, const Input *in, int64_t n) {
    const int8_t *high = in->digits, *low = high + n;
    int32_t a = 0, b = 0;
    int64_t i = 0;
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
    __m512i as = _mm512_setzero_si512(), bs = as, sign = _mm512_set1_epi8(-128);
    for (; i + 64 <= n; i += 64) {
        __m512i w = _mm512_xor_si512(_mm512_loadu_si512(weight + i), sign);
        as = _mm512_dpbusd_epi32(as, w, _mm512_loadu_si512(high + i));
        bs = _mm512_dpbusd_epi32(bs, w, _mm512_loadu_si512(low + i));
    }
    add_up(_mm256_add_epi32(_mm512_castsi512_si256(as), _mm512_extracti64x4_epi64(as, 1)),
           _mm256_add_epi32(_mm512_castsi512_si256(bs), _mm512_extracti64x4_epi64(bs, 1)), &a, &b);
#elif defined(__AVX2__)
    __m256i as = _mm256_setzero_si256(), bs = as, sign = _mm256_set1_epi8(-128), one = _mm256_set1_epi16(1);
    for (; i + 32 <= n; i += 32) {
        __m256i w = _mm256_xor_si256(_mm256_loadu_si256((const void *)(weight + i)), sign);
        __m256i h = _mm256_loadu_si256((const void *)(high + i)), l = _mm256_loadu_si256((const void *)(low + i));
        as = _mm256_add_epi32(as, _mm256_madd_epi16(_mm256_maddubs_epi16(w, h), one));
        bs = _mm256_add_epi32(bs, _mm256_madd_epi16(_mm256_maddubs_epi16(w, l), one));
    }
    add_up(as, bs, &a, &b);
#endif
#ifdef __AVX2__
    for (; i < n; i++) a += (weight[i] + 128) * high[i], b += (weight[i] + 128) * low[i];
    a -= 128 * in->sums[0], b -= 128 * in->sums[1];
#else
#pragma omp simd reduction(+ : a, b)
    for (i = 0; i < n; i++) a += weight[i] * high[i], b += weight[i] * low[i];
#endif
    return ((float)a * BASE + (float)b) * in->unit;
}

/* Outputs from .. to of a layer, to which others may be added */
static void multiply(const Linear *layer, const Input *in, const float *added, float *out, int64_t from, int64_t to) {
    int64_t n = layer->inputs;
    for (int64_t o = from; o < to; o++) {
        float sum = layer->scale ? whole_product((const int8_t *)layer->weight + o * n, in, n) * layer->scale[o]
                                 : half_product((const uint32_t *)layer->weight + o * n / 2, in, n);
        out[o] = sum + (layer->bias.data ? entry(layer->bias, o) : 0) + (added ? added[o] : 0);
    }
}

/* Halves of x by a rotary position: cosines, then sines (2, K) */
static void apply_rope(float *x, const float *rope, int64_t k) {
    const float *cos = rope, *sin = rope + k;
    for (int64_t i = 0; i < k / 2; i++) {
        float first = x[i], second = x[k / 2 + i];
        x[i] = first * cos[i] - second * sin[i];
        x[k / 2 + i] = second * cos[k / 2 + i] + first * sin[k / 2 + i];
    }
}

static inline void look_by(const float *restrict query, const float *restrict keys, const float *restrict values, int64_t positions,
                           float *restrict scores, float *restrict out, int64_t k) {
    float top = -INFINITY, sum = 0, by = 1 / sqrtf((float)k);
    for (int64_t s = 0; s < positions; s++) {
        float score = 0;
#pragma omp simd reduction(+ : score)
        for (int64_t i = 0; i < k; i++) score += query[i] * keys[s * k + i];
        scores[s] = score * by;
        top = scores[s] > top ? scores[s] : top;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t s = 0; s < positions; s++) sum += scores[s] = decay(scores[s] - top);
    memset(out, 0, k * sizeof *out);
    for (int64_t s = 0; s < positions; s++)
#pragma omp simd
        for (int64_t i = 0; i < k; i++) out[i] += scores[s] * values[s * k + i];
    for (int64_t i = 0; i < k; i++) out[i] /= sum;
}

static void look(const float *query, const float *keys, const float *values, int64_t positions, float *scores, float *out, int64_t k) {
    if (k == 64) /* the usual width, for which the loops are unrolled */
        look_by(query, keys, values, positions, scores, out, 64);
    else
        look_by(query, keys, values, positions, scores, out, k);
}

/* The heads of a group: the new token's key and value are stored, then all that is stored is looked at */
static void attend(const Stack *s, float *qkv, float *keys, float *values, int64_t length, int64_t window, const float *rope,
                   int64_t group, float *scores, float *mixed) {
    int64_t k = s->head_width, shared = s->heads / s->kv_heads, from = window && length >= window ? length + 1 - window : 0;
    float *key = qkv + (s->heads + group) * k, *value = key + s->kv_heads * k;
    if (rope) apply_rope(key, rope, k);
    memcpy(keys + length * k, key, k * sizeof *key);
    memcpy(values + length * k, value, k * sizeof *value);
    for (int64_t h = group * shared; h < (group + 1) * shared; h++) {
        if (rope) apply_rope(qkv + h * k, rope, k);
        look(qkv + h * k, keys + from * k, values + from * k, length + 1 - from, scores, mixed + h * k, k);
    }
}

typedef struct {
    float *qkv, *mixed, *hidden, *middle, *end; /* that all threads see */
    float *wide, *normed, *stream, *scores;    /* of each thread: (widest), (widest), (D), (S) */
    int8_t *digits;                            /* (2, widest) */
    int64_t positions;
} Workspace;
typedef struct {
    atomic_int arrived, turn;
} Meeting;
typedef struct {
    int64_t thread, threads;
    Meeting *meeting;
    Input *in;
    float *normed, *stream, *scores;
} Worker;

/* Wait for the other threads, soon in a way that leaves the processor to those that have something to do */
static void meet(const Worker *w) {
    int turn = atomic_load(&w->meeting->turn);
    if (atomic_fetch_add(&w->meeting->arrived, 1) == w->threads - 1) {
        atomic_store(&w->meeting->arrived, 0);
        atomic_store(&w->meeting->turn, turn + 1);
        return;
    }
    for (int waited = 0; atomic_load(&w->meeting->turn) == turn; waited++)
        if (waited > PATIENCE) sched_yield();
}

/* The first of the outputs that are a thread's own */
static int64_t first(int64_t outputs, int64_t thread, int64_t threads) {
    return thread == threads ? outputs : outputs * thread / threads / LINE * LINE;
}

/* A thread's own outputs of a layer for x, under a norm where one is given */
static void linear(const Worker *w, const Linear *layer, const Norm *norm, const float *x, const float *added, float *out) {
    if (norm) normalise(norm, x, w->normed, layer->inputs);
    prepare(layer, norm ? w->normed : x, w->in);
    multiply(layer, w->in, added, out, first(layer->outputs, w->thread, w->threads), first(layer->outputs, w->thread + 1, w->threads));
}

/* The same of a feed-forward layer's first product and its activation */
static void up(const Stack *s, const Worker *w, const Linear *layer, const Norm *norm, const float *x, float *out) {
    int64_t inner = s->gated ? layer->outputs / 2 : layer->outputs;
    int64_t from = first(inner, w->thread, w->threads), to = first(inner, w->thread + 1, w->threads);
    if (norm) normalise(norm, x, w->normed, layer->inputs);
    prepare(layer, norm ? w->normed : x, w->in);
    multiply(layer, w->in, NULL, out, from, to);
    activate(s->activation, out + from, to - from);
    if (!s->gated) return;
    multiply(layer, w->in, NULL, out, inner + from, inner + to);
    for (int64_t i = from; i < to; i++) out[i] *= out[inner + i];
}

static const float *after(const Stack *s, const Worker *w, const Norm *norm, const float *x) {
    if (s->pre) return x;
    normalise(norm, x, w->stream, s->width);
    return w->stream;
}

static void run(const Stack *s, const Worker *w, const Workspace *workspace, const Store *store, const float *x, const float *rope, float *logits) {
    for (int64_t i = 0; i < s->count; i++) {
        const Layer *l = s->layers + i;
        linear(w, &l->qkv, s->pre ? &l->norm1 : NULL, x, NULL, workspace->qkv);
        meet(w);
        for (int64_t g = w->thread; g < s->kv_heads; g += w->threads) {
            float *keys = store->parts + i * store->layer + g * store->group;
            attend(s, workspace->qkv, keys, keys + store->kind, store->length, l->window, rope, g, w->scores, workspace->mixed);
        }
        meet(w);
        linear(w, &l->out, NULL, workspace->mixed, x, workspace->middle);
        meet(w);
        x = after(s, w, &l->norm1, workspace->middle);
        up(s, w, &l->up, s->pre ? &l->norm2 : NULL, x, workspace->hidden);
        meet(w);
        linear(w, &l->down, NULL, workspace->hidden, x, workspace->end);
        meet(w);
        x = after(s, w, &l->norm2, workspace->end);
    }
    linear(w, &s->head, &s->norm, x, NULL, logits);
    meet(w);
}

/* x (D), rope table of a position (2, K) or NULL -> logits (vocabulary); what is stored of the new token is not counted yet */
void step(const Stack *s, const Store *store, const Workspace *workspace, const float *x, const float *rope, float *logits, int64_t threads) {
    Meeting meeting = {0, 0};
#pragma omp parallel num_threads(threads)
    {
        int64_t t = omp_get_thread_num();
        Input in = {workspace->wide + t * s->widest, workspace->digits + t * 2 * s->widest, 0, {0, 0}};
        Worker w = {t, omp_get_num_threads(), &meeting, &in, workspace->normed + t * s->widest, workspace->stream + t * s->width,
                    workspace->scores + t * workspace->positions};
        run(s, &w, workspace, store, x, rope, logits);
    }
}
