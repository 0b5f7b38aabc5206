// Up to 32 rows (as many in a block, where there are more) times weights: activation(x weightᵀ + bias), or the sums over shares of the inputs.
//
// A block has BN outputs and SHARE inputs, whose weights all fit in shared memory. One thread fetches them, eight whole rows at a time and few
// at once (more would make everybody else wait), and begins before the kernel before has ended. The other warps divide the inputs among
// them, keep their part of x in registers, and meet once, to add their sums: in one order, however many rows there are.
//
// To be defined: M inputs, SHARE, BN (a multiple of 8), TILES of 16 rows, WARPS, FLIGHT (most units of eight rows on their way), PARTS (0: the
// whole product, with bias), KIND of activation (0: none).
#include "hopper.h"

constexpr int BLOCK = 32;  // inputs that a warp takes at once: a lane has eight of them of a row
constexpr int LINE = 2 * SHARE + (SHARE / BLOCK % 2 ? 0 : 64);  // bytes of a row of weights, so that two rows lie in different banks
constexpr int ROWS = 16 * TILES, UNITS = BN / 8, THREADS = 32 * WARPS;
constexpr int BLOCKS = SHARE / BLOCK, OWN = (BLOCKS + WARPS - 1) / WARPS;  // of inputs, and the most of a warp
constexpr int PAIRS = TILES * UNITS * 2 * 32;
constexpr int WEIGHTS = BN * LINE, SUMS = WARPS * PAIRS * 8;
constexpr int ROOM = WEIGHTS > SUMS ? WEIGHTS : SUMS;  // the sums lie where the weights were
static_assert(SHARE % BLOCK == 0 && BN % 8 == 0 && (PARTS ? SHARE * PARTS == M : SHARE == M), "sizes");

struct Args {
    const half_word* x;  // (R, M)
    const half_word* weight;  // (N, M)
    const half_word* bias;  // (N), or null
    void* out;  // (R, N), or (PARTS, R, N) of floats
    long long rows, outputs;
};
struct Known {
    long_word full[UNITS];
    float biases[BN];
};

__device__ inline float rounded_float(float x) { return widened(rounded(x)); }
__device__ inline float activated(float x) {
    if (KIND == 1) return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    if (KIND == 2) return __fdividef(x, 1.0f + __expf(-2.0f * 0.7978845608028654f * (x + 0.044715f * x * x * x)));
    if (KIND == 3) return fmaxf(x, 0.0f);
    if (KIND == 4) return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    if (KIND == 5) return __fdividef(x, 1.0f + __expf(-x));
    return x;
}
__device__ inline void wait_for(long_word* barrier) {
    while (!has_passed(barrier, 0)) {}
}

__device__ inline void fetch_weights(const Args& a, char* weights, Known* known, int first, int part) {
    const char* from = (const char*)(a.weight + (long long)first * M + (long long)part * SHARE);
    int there = min((int)a.outputs - first, BN);
    long_word policy = read_once();
    for (int unit = 0; unit < UNITS; ++unit) {
        int begin = unit * 8, end = max(begin, min(begin + 8, there));
        if (unit >= FLIGHT) wait_for(&known->full[unit - FLIGHT]);
        arrive_expecting(&known->full[unit], (end - begin) * SHARE * 2);
        for (int row = begin; row < end; ++row) fetch(weights + row * LINE, from + (long long)row * M * 2, SHARE * 2, &known->full[unit], policy);
    }
}

// A warp's part of x, as products take it; zeros where there are no rows. A lane has 16 bytes of a row of x and of a row of weights at the
// same inputs: which of the 16 inputs of a product they stand for is all the same, as long as both agree.
__device__ inline void take_x(word (&values)[OWN][TILES][2][4], const half_word* x, int rows, int turn, word nothing) {
#pragma unroll
    for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
            bool real = BLOCKS % WARPS == 0 || turn + i * WARPS < BLOCKS;
            const half_word* from = x + (t * 16 * M + i * WARPS * BLOCK);
            uint4 v = make_uint4(0, 0, 0, 0), u = v;
            if (real && t * 16 < rows) v = read16(from);
            if (real && t * 16 + 8 < rows) u = read16(from + 8 * M);
            word(&one)[4] = values[i][t][0], (&two)[4] = values[i][t][1];
            one[0] = v.x ^ nothing, one[1] = u.x ^ nothing, one[2] = v.y ^ nothing, one[3] = u.y ^ nothing;
            two[0] = v.z ^ nothing, two[1] = u.z ^ nothing, two[2] = v.w ^ nothing, two[3] = u.w ^ nothing;
        }
}

// COUNT units' sums: of one alone each product would wait for the one before
template <int COUNT> __device__ inline void add_products(float (&sums)[TILES][UNITS][4], int unit, const word (&values)[OWN][TILES][2][4],
                                                         const char* weights, Known* known, int turn) {
#pragma unroll
    for (int u = unit; u < unit + COUNT; ++u) wait_for(&known->full[u]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (BLOCKS % WARPS && turn + i * WARPS >= BLOCKS) break;
        uint4 of[COUNT];
#pragma unroll
        for (int u = 0; u < COUNT; ++u) of[u] = *(const uint4*)(weights + (unit + u) * 8 * LINE + i * WARPS * BLOCK * 2);
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int u = 0; u < COUNT; ++u) multiply(sums[t][unit + u], values[i][t][0], of[u].x, of[u].y);
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int u = 0; u < COUNT; ++u) multiply(sums[t][unit + u], values[i][t][1], of[u].z, of[u].w);
    }
}

// all warps' sums, in the order of the inputs -> out
__device__ inline void tell(const Args& a, const float (&sums)[TILES][UNITS][4], float2* all, const Known* known, int turn) {
    int thread = threadIdx.x, lane = thread % 32, outputs = (int)a.outputs;
    int first = blockIdx.x * BN, part = blockIdx.y, above = blockIdx.z * ROWS;
    together<1, THREADS>();  // nobody reads weights any more
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int u = 0; u < UNITS; ++u)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                all[turn * PAIRS + ((t * UNITS + u) * 2 + j) * 32 + lane] = make_float2(sums[t][u][2 * j], sums[t][u][2 * j + 1]);
    together<1, THREADS>();
    for (int pair = thread; pair < PAIRS; pair += THREADS) {
        float sum = 0, next = 0;
        for (int w = 0; w < WARPS; ++w) sum += all[w * PAIRS + pair].x, next += all[w * PAIRS + pair].y;
        int tile = pair / 64, at = pair % 32;
        int row = above + tile / UNITS * 16 + pair / 32 % 2 * 8 + at / 4, column = tile % UNITS * 8 + at % 4 * 2;
        if (row >= a.rows || first + column >= outputs) continue;
        long long place = (long long)row * outputs + first + column;
        if (PARTS) {
            *(float2*)((float*)a.out + part * a.rows * outputs + place) = make_float2(sum, next);
        } else {
            sum = activated(rounded_float(sum + known->biases[column])), next = activated(rounded_float(next + known->biases[column + 1]));
            *(word*)((half_word*)a.out + place) = packed(sum, next);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) decode_matmul(const __grid_constant__ Args a) {
    char* weights = shared_memory();
    Known* known = (Known*)(weights + ROOM);
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int first = blockIdx.x * BN, part = blockIdx.y, above = blockIdx.z * ROWS;
    if (thread == 0) {
        for (int unit = 0; unit < UNITS; ++unit) barrier_init(&known->full[unit], 1);
        barriers_ready();
    }
    __syncthreads();
    if (warp == WARPS) {
        if (lane == 0) fetch_weights(a, weights, known, first, part);
        return;
    }
    for (int i = thread; !PARTS && i < BN; i += THREADS)
        known->biases[i] = a.bias && first + i < a.outputs ? widened(__ldg(a.bias + first + i)) : 0.0f;
    int turn = (warp + blockIdx.x) % WARPS;  // which of the inputs a warp takes: other blocks' warps begin at others of x
    int row = lane / 4, input = turn * BLOCK + lane % 4 * 8;  // of a lane, the first
    word nothing = (word)(a.rows >> 32);  // a zero that the compiler does not know, so that it lays out `values` once and for all
    word values[OWN][TILES][2][4];
    float sums[TILES][UNITS][4] = {};
    wait_for_kernel();
    let_next_begin();
    take_x(values, a.x + (long long)(above + row) * M + part * SHARE + input, (int)a.rows - above - row, turn, nothing);
    const char* own = weights + row * LINE + input * 2;
#pragma unroll
    for (int unit = 0; unit + 1 < UNITS; unit += 2) add_products<2>(sums, unit, values, own, known, turn);
    if (UNITS % 2) add_products<1>(sums, UNITS - 1, values, own, known, turn);
    tell(a, sums, (float2*)weights, known, turn);
}
