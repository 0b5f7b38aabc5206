/* Word vectors by stochastic gradient descent (see kernels/c/word_vectors.py): a pure function of tables, words and keys, whatever the
number of threads.

An update takes the next U words that subsampling keeps of a passage as centres. First its gradients are found, all at the tables as the
update before left them, a part of the centres at a time; then they are added, a part of the rows at a time, each row in the order of the
centres. Which thread does which part, and how many parts there are, changes nothing. Whatever a centre predicts, it is a hidden vector h against rows of the output table, each with a label: d loss / d score = weight
(sigmoid(score) - label). Shapes: D width, K passages, L length, V vocabulary, W window, T threads, P parts. */

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exponential.h"

typedef float lanes __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4)));
enum { WIDE = 16, GUIDE_BITS = 16, GRAIN_BITS = 48, AHEAD = 6, PATIENCE = 4000, NAP = 50000, LONGEST_NAP = 2000000 };

typedef struct {
    const int32_t *words, *guide, *offsets, *nodes; /* (K, L), negative where sentences end; (2^16 + 1); (V + 1); of paths */
    const int64_t *keys, *noise;                    /* (K,), (V,) */
    const float *keep, *codes;                      /* (V,); labels of paths */
    float *input, *output;                          /* tables (V, D) */
    double *loss;                                   /* sum, pairs */
    int32_t *counts;                                /* (2, V), all 0: entries of rows, where there is a limit */
    int64_t passages, length, width, window, centres, cbow, negatives, longest, threads, parts; /* longest: rows that predict a word */
    int64_t limit, vocabulary;
    float rate;
} Job;

typedef struct { int32_t row, item; float by; } Entry;              /* a row of a table += by * a vector of an item */
typedef struct { Entry *at; int64_t count; } Bin;
typedef struct { int64_t inputs, outputs, first_input, first_output, pairs; } Item; /* a centre word */

typedef struct {
    Item *items;
    int32_t *inputs, *outputs; /* rows of all items, end to end */
    float *labels, *hidden, *gradient;
    Bin *output_bins, *input_bins; /* one for each part of the rows */
    double *losses;
} Share;

static uint64_t mix(uint64_t value) { /* splitmix64, as weft.core.random has it */
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

static uint64_t bits(uint64_t key, uint64_t number) { return mix(key ^ mix(number)); }

/* Tasks in phases of P: those of a phase begin when all of the one before are done. A thread takes one only when it may begin, so one that
waits holds up nobody. It sleeps where it waits for long: then the machine keeps another from running, which goes on alone meanwhile */
typedef struct { _Alignas(64) _Atomic int64_t next; _Alignas(64) _Atomic int64_t done; } Queue;

static void pause_for(int64_t *spins) {
    if (++*spins <= PATIENCE) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
        return;
    }
    int64_t more = *spins - PATIENCE;
    nanosleep(&(struct timespec){.tv_nsec = more < LONGEST_NAP / NAP ? more * NAP : LONGEST_NAP}, NULL);
}

/* The number of a task, or -1 behind the last */
static int64_t next_task(Queue *queue, int64_t parts, int64_t all) {
    int64_t task = atomic_load_explicit(&queue->next, memory_order_relaxed), spins = 0;
    while (task < all) {
        if (atomic_load_explicit(&queue->done, memory_order_acquire) < task / parts * parts) {
            pause_for(&spins);
            task = atomic_load_explicit(&queue->next, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&queue->next, &task, task + 1, memory_order_acq_rel, memory_order_relaxed)) {
            return task;
        }
    }
    return -1;
}

static void end_task(Queue *queue) { atomic_fetch_add_explicit(&queue->done, 1, memory_order_acq_rel); }

/* -- rows of D numbers, D a multiple of 16 plus a rest ------------------------------------------------------------------------------ */

static inline lanes load_rest(const float *from, int64_t rest) {
    lanes out = {0};
    for (int64_t i = 0; i < rest; i++) out[i] = from[i];
    return out;
}

#ifdef __AVX512F__
#include <immintrin.h>
#define LOAD_REST(from, rest) ((lanes)_mm512_maskz_loadu_ps((1u << (rest)) - 1, from))
#define STORE_REST(to, value, rest) _mm512_mask_storeu_ps(to, (1u << (rest)) - 1, (__m512)(value))
#else
#define LOAD_REST(from, rest) load_rest(from, rest)
#define STORE_REST(to, value, rest) for (int64_t i_ = 0; i_ < (rest); i_++) (to)[i_] = (value)[i_]
#endif

static inline lanes load(const float *from) { return (lanes)*(const loose *)from; }

/* the table's row += by * vector (padded) */
static inline void add(float *row, float by, const float *vector, int64_t width) {
    int64_t whole = width / WIDE * WIDE, rest = width % WIDE;
    for (int64_t i = 0; i < whole; i += WIDE) *(loose *)(row + i) += by * load(vector + i);
    if (rest) {
        lanes sum = LOAD_REST(row + whole, rest) + by * load(vector + whole);
        STORE_REST(row + whole, sum, rest);
    }
}

static inline void fetch(const float *row, int64_t width, int write) {
    for (int64_t i = 0; i < width; i += WIDE) write ? __builtin_prefetch(row + i, 1) : __builtin_prefetch(row + i);
}

/* -- what is drawn ------------------------------------------------------------------------------------------------------------------ */

/* The words (at most L + 2) of a passage that are kept, with an end before and behind, and their keys; the index of the last end */
static int64_t subsample(const Job *job, int64_t passage, int32_t *kept, uint64_t *keys) {
    const int32_t *words = job->words + passage * job->length;
    uint64_t own = job->keys[passage], key = mix(own ^ mix(SUBSAMPLE));
    int64_t count = 0;
    kept[count++] = -1;
    for (int64_t i = 0; i < job->length; i++) {
        int32_t word = words[i];
        int stays = word < 0 || (float)(bits(key, i) >> 40) * 0x1p-24f < job->keep[word];
        kept[count] = word, keys[count] = bits(own, i), count += stays;
    }
    kept[count] = -1;
    return count;
}

static int32_t draw(const Job *job, uint64_t random) {
    int64_t at = random >> 1 & (((int64_t)1 << GRAIN_BITS) - 1);
    int32_t word = job->guide[at >> (GRAIN_BITS - GUIDE_BITS)];
    while (job->noise[word] <= at) word++;
    return word;
}

static inline void output(Share *share, Item *item, int32_t row, float label) {
    int64_t at = item->first_output + item->outputs++;
    share->outputs[at] = row, share->labels[at] = label;
}

/* The rows that a word is predicted by: those of its path through a tree, or its own and those of noise words */
static void predict(const Job *job, Share *share, Item *item, int32_t word, uint64_t key, int64_t pair) {
    item->pairs++;
    if (job->offsets) {
        for (int32_t i = job->offsets[word]; i < job->offsets[word + 1]; i++) output(share, item, job->nodes[i], job->codes[i]);
        return;
    }
    output(share, item, word, 1);
    for (int64_t n = 0; n < job->negatives; n++) output(share, item, draw(job, bits(key, pair * job->negatives + n)), 0);
}

/* What a centre word predicts from what; kept: words, negative where sentences end */
static void collect(const Job *job, Share *share, Item *item, const int32_t *kept, int64_t centre, uint64_t key) {
    uint64_t noise_key = mix(key ^ mix(NEGATIVES));
    int64_t reach = 1 + (bits(mix(key ^ mix(REACH)), 0) >> 1) % job->window, from = centre, to = centre;
    while (centre - from < reach && kept[from - 1] >= 0) from--;
    while (to - centre < reach && kept[to + 1] >= 0) to++;
    if (from == to) return;
    if (job->cbow) {
        for (int64_t i = from; i <= to; i++)
            if (i != centre) share->inputs[item->first_input + item->inputs++] = kept[i];
        predict(job, share, item, kept[centre], noise_key, 0);
    } else {
        share->inputs[item->first_input + item->inputs++] = kept[centre];
        for (int64_t i = from; i <= to; i++)
            if (i != centre) predict(job, share, item, kept[i], noise_key, i - centre + job->window - (i > centre));
    }
}

/* Which part of the rows has one */
static inline int64_t owner(int32_t row, int64_t parts) { return (uint64_t)(row * 2654435761u) * parts >> 32; }

/* -- gradients ---------------------------------------------------------------------------------------------------------------------- */

/* The 16 sums of 16 numbers each */
static inline lanes sums_of(lanes *v) {
    typedef int32_t order __attribute__((vector_size(64)));
#define FOLD(n, a, b)                                                                                                                    \
    for (int i = 0; i < n; i++) v[i] = __builtin_shuffle(v[i], v[i + n], (order)a) + __builtin_shuffle(v[i], v[i + n], (order)b)
#define ARRAY(...) {__VA_ARGS__}
    FOLD(8, ARRAY(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23), ARRAY(8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
    FOLD(4, ARRAY(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27), ARRAY(4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
    FOLD(2, ARRAY(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29), ARRAY(2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31));
    FOLD(1, ARRAY(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), ARRAY(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
    return v[0];
}

/* Which sum stands where after that: place i holds that of vector ORDER[i] */
static const int8_t ORDER[WIDE] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

static inline __attribute__((always_inline)) void find(const Job *job, Share *share, const Item *item, int64_t number, int64_t base,
                                                      int64_t whole, int64_t rest) {
    int64_t padded = (whole + (rest > 0)) * WIDE, width = job->width;
    float *hidden = share->hidden + number * padded, *gradient = share->gradient + number * padded;
    const int32_t *inputs = share->inputs + item->first_input, *rows = share->outputs + item->first_output;
    const float *labels = share->labels + item->first_output;
    lanes h[whole + 1], d[whole + 1];
    for (int64_t c = 0; c <= whole; c++) h[c] = (lanes){0}, d[c] = (lanes){0};
    for (int64_t m = 0; m < item->inputs; m++) {
        const float *row = job->input + inputs[m] * width;
        for (int64_t c = 0; c < whole; c++) h[c] += load(row + c * WIDE);
        if (rest) h[whole] += LOAD_REST(row + whole * WIDE, rest);
    }
    float mean = 1.0f / item->inputs;
    for (int64_t c = 0; c < whole + (rest > 0); c++) h[c] *= mean, *(loose *)(hidden + c * WIDE) = h[c];
    double loss = 0;
    for (int64_t begin = 0; begin < item->outputs; begin += WIDE) {
        int64_t count = item->outputs - begin < WIDE ? item->outputs - begin : WIDE;
        lanes dots[WIDE];
        for (int64_t n = 0; n < WIDE; n++) dots[n] = (lanes){0};
        for (int64_t n = 0; n < count; n++) {
            const float *row = job->output + rows[begin + n] * width;
            lanes even = {0}, odd = {0};
            for (int64_t c = 0; c + 1 < whole; c += 2) even += h[c] * load(row + c * WIDE), odd += h[c + 1] * load(row + (c + 1) * WIDE);
            if (whole % 2) even += h[whole - 1] * load(row + (whole - 1) * WIDE);
            if (rest) odd += h[whole] * LOAD_REST(row + whole * WIDE, rest);
            dots[ORDER[n]] = even + odd;
        }
        lanes score = sums_of(dots);
        float at[WIDE], by[WIDE], odds[WIDE];
        double cost = 1;
        memcpy(at, &score, sizeof at);
        for (int64_t n = 0; n < WIDE; n++) odds[n] = exponential(-at[n]); /* e^-s */
        for (int64_t n = 0; n < count; n++) {
            float label = labels[begin + n];
            by[n] = job->rate * (label - 1 / (1 + odds[n]));
            cost *= 1 + (label > 0 ? (double)odds[n] : 1.0 / odds[n]);
            if (cost > 1e200) loss += log(cost), cost = 1;
        }
        loss += log(cost);
        for (int64_t n = 0; n < count; n++) {
            const float *row = job->output + rows[begin + n] * width;
            for (int64_t c = 0; c < whole; c++) d[c] += by[n] * load(row + c * WIDE);
            if (rest) d[whole] += by[n] * LOAD_REST(row + whole * WIDE, rest);
            Bin *bin = share->output_bins + owner(rows[begin + n], job->parts);
            bin->at[bin->count++] = (Entry){rows[begin + n], base + number, by[n]};
        }
    }
    for (int64_t c = 0; c < whole + (rest > 0); c++) *(loose *)(gradient + c * WIDE) = d[c];
    for (int64_t m = 0; m < item->inputs; m++) {
        Bin *bin = share->input_bins + owner(inputs[m], job->parts);
        bin->at[bin->count++] = (Entry){inputs[m], base + number, mean};
    }
    share->losses[number] = loss;
}

/* The gradients of a centre, and what is to be added to which rows */
static void gradient_of(const Job *job, Share *share, const Item *item, int64_t number, int64_t base) {
#define KNOWN(width_) \
    if (job->width == (width_)) { find(job, share, item, number, base, (width_) / WIDE, (width_) % WIDE); return; }
    KNOWN(64) KNOWN(100) KNOWN(128) KNOWN(200) KNOWN(256) KNOWN(300)
    find(job, share, item, number, base, job->width / WIDE, job->width % WIDE);
}

/* limit: entries of a row that count in full; where there are more, by `counts`, each counts for as much less */
static void apply(const Job *job, float *table, const Bin *bin, const float *vectors, int64_t padded, const int32_t *counts) {
    for (int64_t i = 0; i < bin->count; i++) {
        if (i + AHEAD < bin->count) fetch(table + bin->at[i + AHEAD].row * job->width, job->width, 1);
        int32_t row = bin->at[i].row;
        float by = job->limit && counts[row] > job->limit ? bin->at[i].by * job->limit / counts[row] : bin->at[i].by;
        add(table + row * job->width, by, vectors + bin->at[i].item * padded, job->width);
    }
}

static void count(const Bin *bin, int32_t *counts, int32_t keep) {
    for (int64_t i = 0; i < bin->count; i++) counts[bin->at[i].row] = keep * counts[bin->at[i].row] + keep;
}

/* -- a job -------------------------------------------------------------------------------------------------------------------------- */

/* Room for all tables, and each part's piece of it */
typedef struct { char *at; size_t size; } Room;

static void *take(Room *room, size_t size) {
    char *here = room->at ? room->at + room->size : NULL;
    room->size += (size + 63) / 64 * 64;
    return here;
}

typedef struct {
    int32_t *kept;
    uint64_t *keys;
    int64_t *counts;
    float *hidden, *gradient;
    double *losses;
    Item *items;
    Bin *bins;
    Share *shares;
} Tables;

/* Lays out all that is needed; of a room at NULL only the size is found */
static Tables lay_out(const Job *job, Room *room) {
    int64_t parts = job->parts, most = job->centres, long_ = job->length + 2, each = (most + parts - 1) / parts;
    int64_t padded = (job->width + WIDE - 1) / WIDE * WIDE, inputs = job->cbow ? 2 * job->window : 1;
    int64_t outputs = (job->cbow ? 1 : 2 * job->window) * job->longest;
    Tables all = {take(room, job->passages * long_ * sizeof(int32_t)), take(room, job->passages * long_ * sizeof(uint64_t)),
                  take(room, job->passages * sizeof(int64_t)), take(room, most * padded * sizeof(float)),
                  take(room, most * padded * sizeof(float)), take(room, most * sizeof(double)), take(room, most * sizeof(Item)),
                  take(room, 2 * parts * parts * sizeof(Bin)), take(room, parts * sizeof(Share))};
    for (int64_t part = 0; part < parts; part++) {
        Share share = {.inputs = take(room, each * inputs * sizeof(int32_t)), .outputs = take(room, each * outputs * sizeof(int32_t)),
                       .labels = take(room, each * outputs * sizeof(float))};
        share.output_bins = all.bins + 2 * part * parts, share.input_bins = share.output_bins + parts;
        for (int64_t rows = 0; rows < parts; rows++) {
            Entry *output = take(room, each * outputs * sizeof(Entry)), *input = take(room, each * inputs * sizeof(Entry));
            if (room->at) share.output_bins[rows].at = output, share.input_bins[rows].at = input;
        }
        if (room->at) all.shares[part] = share;
    }
    return all;
}

/* A part of an update's gradients: those of `own` centres, the first of which is number `from` of all */
static void find_all(const Job *job, Share *share, const int32_t *kept, const uint64_t *keys, int64_t from, int64_t own) {
    int64_t inputs = job->cbow ? 2 * job->window : 1, outputs = (job->cbow ? 1 : 2 * job->window) * job->longest, width = job->width;
    for (int64_t rows = 0; rows < job->parts; rows++) share->output_bins[rows].count = share->input_bins[rows].count = 0;
    for (int64_t n = 0; n < own; n++) {
        share->items[n] = (Item){.first_input = n * inputs, .first_output = n * outputs};
        share->losses[n] = 0;
        if (kept[n] >= 0) collect(job, share, share->items + n, kept, n, keys[n]);
    }
    for (int64_t n = 0; n < own; n++) {
        if (n + 1 < own) {
            Item *next = share->items + n + 1;
            for (int64_t i = 0; i < next->outputs; i++) fetch(job->output + share->outputs[next->first_output + i] * width, width, 0);
            for (int64_t i = 0; i < next->inputs; i++) fetch(job->input + share->inputs[next->first_input + i] * width, width, 0);
        }
        if (share->items[n].outputs) gradient_of(job, share, share->items + n, n, from);
    }
}

typedef struct { int64_t number, passage, first; } Update; /* of all; the first of its centres */

/* Updates of a passage: one at least for the words that are kept, none where none is */
static inline int64_t updates_of(const Job *job, const Tables *all, int64_t passage) {
    return (all->counts[passage] - 1 + job->centres - 1) / job->centres;
}

static void seek(const Job *job, const Tables *all, Update *at, int64_t number) {
    for (; at->number < number; at->number++) {
        at->first += job->centres;
        while (at->first >= all->counts[at->passage]) at->passage++, at->first = 1;
    }
}

/* A part of an update: first some centres' gradients, then, when all are found, what is added to some rows */
static void do_part(const Job *job, const Tables *all, const Update *at, int adding, int64_t part, double *loss, int64_t *pairs) {
    int64_t left = all->counts[at->passage] - at->first, number = left < job->centres ? left : job->centres, parts = job->parts;
    int64_t padded = (job->width + WIDE - 1) / WIDE * WIDE, place = at->passage * (job->length + 2) + at->first;
    if (!adding) {
        int64_t from = number * part / parts, own = number * (part + 1) / parts - from;
        Share share = all->shares[part];
        share.hidden = all->hidden + from * padded, share.gradient = all->gradient + from * padded;
        share.losses = all->losses + from, share.items = all->items + from;
        find_all(job, &share, all->kept + place + from, all->keys + place + from, from, own);
        return;
    }
    int32_t *outputs = job->counts, *inputs = job->counts + job->vocabulary;
    for (int round = job->limit ? 0 : 1; round < (job->limit ? 3 : 2) && job->rate != 0; round++) /* count, add, and count no more */
        for (int64_t of = 0; of < parts; of++) {
            const Bin *output = all->bins + 2 * of * parts + part, *input = output + parts;
            if (round == 1) {
                apply(job, job->output, output, all->hidden, padded, outputs);
                apply(job, job->input, input, all->gradient, padded, inputs);
            } else {
                count(output, outputs, round == 0), count(input, inputs, round == 0);
            }
        }
    for (int64_t n = 0; part == 0 && n < number; n++) *loss += all->losses[n], *pairs += all->items[n].pairs;
}

int64_t update_words(Job *job) {
    int64_t threads = job->threads, parts = threads == 1 ? 1 : threads < 4 ? 4 * threads : threads < 16 ? 16 : threads, pairs = 0;
    double loss = 0;
    Room room = {0};
    job->parts = parts < job->centres ? parts : job->centres, parts = job->parts;
    lay_out(job, &room);
    if (!(room.at = aligned_alloc(64, room.size))) return 1;
    room.size = 0;
    Tables all = lay_out(job, &room);
    Queue drawing = {0}, updating = {0};
#pragma omp parallel num_threads(threads)
    {
        int64_t task, number = 0, spins = 0, long_ = job->length + 2;
        while ((task = next_task(&drawing, job->passages, job->passages)) >= 0) {
            all.counts[task] = subsample(job, task, all.kept + task * long_, all.keys + task * long_);
            end_task(&drawing);
        }
        while (atomic_load_explicit(&drawing.done, memory_order_acquire) < job->passages) pause_for(&spins);
        for (int64_t p = 0; p < job->passages; p++) number += updates_of(job, &all, p);
        Update at = {0, 0, 1};
        while (number && at.first >= all.counts[at.passage]) at.passage++;
        while ((task = next_task(&updating, parts, 2 * number * parts)) >= 0) {
            seek(job, &all, &at, task / (2 * parts));
            do_part(job, &all, &at, task / parts % 2, task % parts, &loss, &pairs);
            end_task(&updating);
        }
    }
    job->loss[0] = loss, job->loss[1] = pairs;
    free(room.at);
    return 0;
}
