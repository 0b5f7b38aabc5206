// A new token of each row looks at those before it: the queries of a group of heads at one row's keys and values, a part of the positions.
//
// Each warp has chunks of 16 positions of its own and a ring of its own for them. What the cache holds does not depend on the kernel before, so
// as much as the rings hold is on its way before that has ended. Scores and mixes are matrix products, with the group's queries as rows; the
// weights of positions are taken as sums of two rounded numbers each, so that next to nothing is lost.
//
// To be defined: HEADS, GROUPS, K head width, WARPS, STAGES of a ring, SPLIT positions of a part, ROTARY (0: positions are told otherwise,
// 1: the RoPE table is of floats, 2: of bf16), WHOLE (one part alone).
#include "hopper.h"

constexpr int CHUNK = 16, LINE = 2 * K + 16;  // positions; bytes of one in shared memory, so that eight lie in different banks
constexpr int QUERIES = HEADS / GROUPS, MOST = 8;
constexpr int STAGE = 2 * CHUNK * LINE, RING = STAGES * STAGE;
constexpr int THREADS = 32 * WARPS;
#define LEAST __uint_as_float(0xFF800000u)
static_assert(K % 16 == 0 && HEADS % GROUPS == 0 && QUERIES <= MOST && RING >= QUERIES * (K + 2) * 4, "sizes");

struct Fresh {  // of the new token
    half_word queries[MOST * (K + 8)], key[K], value[K];
};

__device__ inline float quad_sum(float x) {
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}
__device__ inline float quad_most(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

// keys and values of a chunk
__device__ inline void copy_chunk(char* to, const half_word* keys, const half_word* values, int there, int lane) {
    constexpr int SEGMENTS = K / 8;
#pragma unroll
    for (int i = lane; i < CHUNK * SEGMENTS; i += 32) {
        int place = i / SEGMENTS, segment = i % SEGMENTS, from = (place < there ? place : 0) * K + segment * 8;
        copy(to + place * LINE + segment * 16, keys + from, place < there);
        copy(to + (CHUNK + place) * LINE + segment * 16, values + from, place < there);
    }
}

// a number of a head vector, turned by its position where positions are told so
__device__ inline float rope_at(const void* table, long long at) { return ROTARY == 1 ? ((const float*)table)[at] : widened(((const half_word*)table)[at]); }
__device__ inline half_word turned(const half_word* vector, int k, const void* table, long long cosines, long long sines) {
    float partner = widened(vector[(k + K / 2) % K]);
    return rounded(widened(vector[k]) * rope_at(table, cosines + k) + (k < K / 2 ? -partner : partner) * rope_at(table, sines + k));
}

// the group's queries, key and value of a row's new token
__device__ inline void take_fresh(Fresh* fresh, const half_word* qkv, int group, const void* table, long long cosines, long long sines, int thread) {
    constexpr int STEP = ROTARY ? 1 : 8;
    for (int i = thread * STEP; i < (QUERIES + 2) * K; i += THREADS * STEP) {
        int which = i / K, k = i % K;
        int head = which < QUERIES ? group * QUERIES + which : which == QUERIES ? HEADS + group : HEADS + GROUPS + group;
        half_word* to = (which < QUERIES ? fresh->queries + which * (K + 8) : which == QUERIES ? fresh->key : fresh->value) + k;
        const half_word* from = qkv + head * K;
        if (ROTARY) *to = which <= QUERIES ? turned(from, k, table, cosines, sines) : from[k];
        else *(uint4*)to = *(const uint4*)(from + k);
    }
}

struct Args {
    const half_word* qkv;  // (R, (HEADS + 2 GROUPS) K)
    half_word *keys, *values;  // of the cache; those of the new token are kept there
    const long long* lengths;  // (R)
    const void* table;  // RoPE table (2, positions, K)
    half_word* out;  // (R, HEADS K)
    float *mixes, *tops, *totals;  // of the parts (parts, R, HEADS, K) and (parts, R, HEADS), where there are several
    long long positions, row_stride, group_stride, window;
    float scale;
};

extern "C" __global__ void __launch_bounds__(THREADS) decode_attention(const __grid_constant__ Args a) {
    char* memory = shared_memory();
    Fresh* fresh = (Fresh*)(memory + WARPS * RING);
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int row = blockIdx.x, group = blockIdx.y, part = blockIdx.z;
    int length = (int)a.lengths[row];
    long long held = row * a.row_stride + group * a.group_stride;
    int begin = max(part * SPLIT, length + 1 - (int)a.window), end = min((part + 1) * SPLIT, length);
    int first = begin + warp * CHUNK;
    half_word *keys = a.keys + held, *values = a.values + held;
    char* ring = memory + warp * RING;
    for (int stage = 0; stage < STAGES; ++stage) {
        int place = first + stage * WARPS * CHUNK;
        if (place < end) copy_chunk(ring + stage * STAGE, keys + place * K, values + place * K, end - place, lane);
        commit();
    }
    wait_for_kernel();
    let_next_begin();
    long long cosines = (long long)length * K, sines = cosines + a.positions * K;
    take_fresh(fresh, a.qkv + (long long)row * (HEADS + 2 * GROUPS) * K, group, a.table, cosines, sines, thread);
    __syncthreads();
    int query = lane / 4, pair = lane % 4 * 2;  // the row of queries and the first of two columns that a lane has of a product
    bool real = query < QUERIES;
    word queries[K / 16][4];
    for (int step = 0; step < K / 16; ++step) {
        const word* at = (const word*)(fresh->queries + query * (K + 8) + step * 16 + pair);
        queries[step][0] = real ? at[0] : 0, queries[step][2] = real ? at[4] : 0;
        queries[step][1] = queries[step][3] = 0;
    }
    float mixed[K / 8][4] = {}, top = LEAST, total = 0;
    if (part == 0 && warp == 0) {  // the new token itself
        float score = 0;
        for (int k = pair; real && k < K; k += 8)
            for (int j = 0; j < 2; ++j) score += widened(fresh->queries[query * (K + 8) + k + j]) * widened(fresh->key[k + j]);
        top = quad_sum(score) * a.scale, total = 1;
        for (int c = 0; c < K / 8; ++c)
            for (int j = 0; j < 2; ++j) mixed[c][j] = widened(fresh->value[c * 8 + pair + j]);
    }
    if (part == 0 && thread >= THREADS - K / 8) {
        int segment = thread - (THREADS - K / 8);
        ((uint4*)(keys + (long long)length * K))[segment] = ((const uint4*)fresh->key)[segment];
        ((uint4*)(values + (long long)length * K))[segment] = ((const uint4*)fresh->value)[segment];
    }
    int stage = 0;
    for (int place = first; place < end; place += WARPS * CHUNK) {
        arrived<STAGES - 1>();
        __syncwarp();
        const char* k = ring + stage * STAGE + (lane % 8 + lane / 16 * 8) * LINE + lane / 8 % 2 * 16;
        const char* v = ring + stage * STAGE + (CHUNK + lane % 16) * LINE + lane / 16 * 16;
        float scores[2][4] = {};
#pragma unroll
        for (int step = 0; step < K / 16; ++step) {
            word b[4];
            load4(b, k + step * 32);
            multiply(scores[0], queries[step], b[0], b[1]);
            multiply(scores[1], queries[step], b[2], b[3]);
        }
        float weights[2][2], most = top;
        for (int t = 0; t < 2; ++t)
            for (int j = 0; j < 2; ++j) {
                weights[t][j] = place + t * 8 + pair + j < end ? scores[t][j] * a.scale : LEAST;
                most = fmaxf(most, weights[t][j]);
            }
        most = quad_most(most);
        float kept = __expf(top - most), sum = 0;  // a chunk has a position at least, so `most` is a number
        word high[4] = {}, low[4] = {};
        for (int t = 0; t < 2; ++t) {
            float rest[2];
            half_word of[2];
            for (int j = 0; j < 2; ++j) {
                float weight = __expf(weights[t][j] - most);
                sum += weight, of[j] = rounded(weight), rest[j] = weight - widened(of[j]);
            }
            high[2 * t] = of[0] | (word)of[1] << 16, low[2 * t] = packed(rest[0], rest[1]);
        }
        total = total * kept + quad_sum(sum), top = most;
#pragma unroll
        for (int c = 0; c < K / 8; ++c) mixed[c][0] *= kept, mixed[c][1] *= kept;
#pragma unroll
        for (int c = 0; c < K / 8; c += 2) {
            word b[4];
            load4_turned(b, v + c * 16);
            multiply(mixed[c], high, b[0], b[1]), multiply(mixed[c], low, b[0], b[1]);
            multiply(mixed[c + 1], high, b[2], b[3]), multiply(mixed[c + 1], low, b[2], b[3]);
        }
        __syncwarp();
        int next = place + STAGES * WARPS * CHUNK;
        if (next < end) copy_chunk(ring + stage * STAGE, keys + next * K, values + next * K, end - next, lane);
        commit();
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    arrived<0>();
    __syncwarp();
    float* own = (float*)ring;  // what a warp found: mixes of the queries, then their tops and totals
    if (real) {
        for (int c = 0; c < K / 8; ++c)
            for (int j = 0; j < 2; ++j) own[query * K + c * 8 + pair + j] = mixed[c][j];
        if (pair == 0) own[QUERIES * K + query] = top, own[QUERIES * (K + 1) + query] = total;
    }
    __syncthreads();
    for (int i = thread; i < QUERIES * K; i += THREADS) {
        int q = i / K, head = group * QUERIES + q;
        float most = LEAST, sum = 0, mix = 0;
        for (int w = 0; w < WARPS; ++w) most = fmaxf(most, ((const float*)(memory + w * RING))[QUERIES * K + q]);
        for (int w = 0; w < WARPS; ++w) {
            const float* of = (const float*)(memory + w * RING);
            float weight = of[QUERIES * K + q] > LEAST ? __expf(of[QUERIES * K + q] - most) : 0.0f;
            sum += of[QUERIES * (K + 1) + q] * weight, mix += of[i] * weight;
        }
        long long place = ((long long)part * gridDim.x + row) * HEADS + head;
        if (WHOLE) {
            a.out[((long long)row * HEADS + head) * K + i % K] = rounded(divided(mix, sum));
        } else {
            a.mixes[place * K + i % K] = mix;
            if (i % K == 0) a.tops[place] = most, a.totals[place] = sum;
        }
    }
}
