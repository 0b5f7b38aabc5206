// Up to 32 rows (as many in a block, where there are more) times weights: activation(x weightᵀ + bias), or the sums over shares of the inputs.
//
// A block has BN outputs and SHARE inputs. One thread fetches its weights, eight whole rows at a time, into the slots of a ring, few at once
// (more would make everybody else wait), and begins before the kernel before has ended. Another thread waits for that kernel, and fetches
// x, of which each block of a cluster takes some rows from memory for all of them. The other warps divide the inputs among them, keep their
// part of x in registers, and meet once, to add their sums: in one order, however many rows there are.
//
// To be defined: M inputs, SHARE, BN (a multiple of 8), TILES of 16 rows, WARPS, SLOTS, FLIGHT (most slots on their way), CLUSTER (blocks),
// PARTS (0: the whole product, with bias), KIND of activation (0: none).
#include "hopper.h"

constexpr int BLOCK = 32;  // inputs that a warp takes at once: a lane has eight of them of a row
constexpr int LINE = 2 * SHARE + (SHARE / BLOCK % 2 ? 0 : 64);  // bytes of a row of weights, so that two rows lie in different banks
constexpr int ROWS = 16 * TILES, UNITS = BN / 8, THREADS = 32 * WARPS;
constexpr int BLOCKS = SHARE / BLOCK, OWN = (BLOCKS + WARPS - 1) / WARPS;  // of inputs, and the most of a warp
constexpr int PAIRS = TILES * UNITS * 2 * 32;
constexpr int UNIT = 8 * LINE, RING = SLOTS * UNIT, SUMS = WARPS * PAIRS * 8;
constexpr int GIVEN = ROWS * LINE > SUMS ? ROWS * LINE : SUMS;  // where x lies, and the sums afterwards
constexpr int ROOM = RING + GIVEN;
static_assert(SLOTS % 2 == 0 || SLOTS >= UNITS, "a ring of pairs");
static_assert(SHARE % BLOCK == 0 && BN % 8 == 0 && (PARTS ? SHARE * PARTS == M : SHARE == M), "sizes");

struct Args {
    const half_word* x;  // (R, M)
    const half_word* weight;  // (N, M)
    const half_word* bias;  // (N), or null
    void* out;  // (R, N), or (PARTS, R, N) of floats
    long long rows, outputs;
};
struct Known {
    long_word full[SLOTS], empty[SLOTS], given;
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
__device__ inline void wait_for(long_word* barrier, int phase) {
    while (!has_passed(barrier, phase & 1)) {}
}
__device__ inline void warp_waits_for(long_word* barrier, int phase) {
    wait_for(barrier, phase);
    __syncwarp();
}

__device__ inline void fetch_weights(const Args& a, char* ring, Known* known, int first, int part) {
    const char* from = (const char*)(a.weight + (long long)first * M + (long long)part * SHARE);
    int there = min((int)a.outputs - first, BN);
    long_word policy = read_once();
    for (int unit = 0; unit < UNITS; ++unit, from += (long long)8 * M * 2) {
        int slot = unit % SLOTS, early = unit - FLIGHT, rows = max(0, min(8, there - unit * 8));
        if (early >= 0) wait_for(&known->full[early % SLOTS], early / SLOTS);
        if (unit >= SLOTS) wait_for(&known->empty[slot], unit / SLOTS - 1);
        arrive_expecting(&known->full[slot], rows * SHARE * 2);
        for (int row = 0; row < rows; ++row)
            fetch(ring + slot * UNIT + row * LINE, from + (long long)row * M * 2, SHARE * 2, &known->full[slot], policy);
    }
}

__device__ inline void fetch_x(const Args& a, char* given, Known* known, int above, int part) {
    const char* from = (const char*)(a.x + (long long)above * M + (long long)part * SHARE);
    int rows = min((int)a.rows - above, ROWS);
    arrive_expecting(&known->given, rows * SHARE * 2);
    for (int row = CLUSTER > 1 ? rank_in_cluster() : 0; row < rows; row += CLUSTER)
        fetch_for_all(given + row * LINE, from + (long long)row * M * 2, SHARE * 2, &known->given, CLUSTER);
}

// A warp's part of x, as products take it. A lane has 16 bytes of a row of x and of a row of weights at the same inputs: which of the 16
// inputs of a product they stand for is all the same, as long as both agree.
__device__ inline void take_x(word (&values)[OWN][TILES][2][4], const char* at, int warp, word nothing) {
#pragma unroll
    for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
            if (BLOCKS % WARPS && warp + i * WARPS >= BLOCKS) continue;
            const char* from = at + t * 16 * LINE + i * WARPS * BLOCK * 2;
            uint4 v = *(const uint4*)from, u = *(const uint4*)(from + 8 * LINE);
            word(&one)[4] = values[i][t][0], (&two)[4] = values[i][t][1];
            one[0] = v.x ^ nothing, one[1] = u.x ^ nothing, one[2] = v.y ^ nothing, one[3] = u.y ^ nothing;
            two[0] = v.z ^ nothing, two[1] = u.z ^ nothing, two[2] = v.w ^ nothing, two[3] = u.w ^ nothing;
        }
}

// COUNT units' sums: of one alone each product would wait for the one before
template <int COUNT> __device__ inline void add_products(float (&sums)[TILES][UNITS][4], int unit, const word (&values)[OWN][TILES][2][4], const char* at,
                                                         Known* known, int warp) {
#pragma unroll
    for (int u = unit; u < unit + COUNT; ++u) warp_waits_for(&known->full[u % SLOTS], u / SLOTS);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
        if (BLOCKS % WARPS && warp + i * WARPS >= BLOCKS) break;
        uint4 weights[COUNT];
#pragma unroll
        for (int u = 0; u < COUNT; ++u) weights[u] = *(const uint4*)(at + (unit + u) % SLOTS * UNIT + i * WARPS * BLOCK * 2);
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int u = 0; u < COUNT; ++u) multiply(sums[t][unit + u], values[i][t][0], weights[u].x, weights[u].y);
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int u = 0; u < COUNT; ++u) multiply(sums[t][unit + u], values[i][t][1], weights[u].z, weights[u].w);
    }
    if (UNITS > SLOTS) {
        __syncwarp();
        for (int u = unit; u < unit + COUNT && threadIdx.x % 32 == 0; ++u) arrive(&known->empty[u % SLOTS]);
    }
}

// all warps' sums, in their order -> out
__device__ inline void tell(const Args& a, const float (&sums)[TILES][UNITS][4], float2* all, const Known* known, int first, int part, int above) {
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, outputs = (int)a.outputs;
    together<1, THREADS>();  // nobody reads x or weights any more
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int u = 0; u < UNITS; ++u)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                all[warp * PAIRS + ((t * UNITS + u) * 2 + j) * 32 + lane] = make_float2(sums[t][u][2 * j], sums[t][u][2 * j + 1]);
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

extern "C" __global__ void __launch_bounds__(THREADS + 64, 1) rows_product(const __grid_constant__ Args a) {
    char *ring = shared_memory(), *given = ring + RING;
    Known* known = (Known*)(given + GIVEN);
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int first = blockIdx.x * BN, part = blockIdx.y, above = blockIdx.z * ROWS;
    if (thread == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) barrier_init(&known->full[slot], 1), barrier_init(&known->empty[slot], WARPS);
        barrier_init(&known->given, 1);
        barriers_ready();
    }
    __syncthreads();
    cluster_arrive();
    if (warp == WARPS) {
        if (lane == 0) fetch_weights(a, ring, known, first, part);
        __syncwarp();
    }
    cluster_wait();  // all blocks of the cluster are ready for x
    if (warp >= WARPS) {
        if (warp > WARPS && lane == 0) {
            wait_for_kernel();
            let_next_begin();
            fetch_x(a, given, known, above, part);
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
        return;
    }
    bool biased = !PARTS && a.bias && thread < BN && first + thread < a.outputs;
    if (thread < BN) known->biases[thread] = biased ? widened(__ldg(a.bias + first + thread)) : 0.0f;
    int inputs = (lane / 4) * LINE + (warp * BLOCK + lane % 4 * 8) * 2;  // where a lane's are, in x and in a unit of weights
    word nothing = (word)(a.rows >> 32);  // a zero that the compiler does not know, so that it lays out `values` once and for all
    word values[OWN][TILES][2][4];
    float sums[TILES][UNITS][4] = {};
    warp_waits_for(&known->given, 0);
    cluster_arrive();  // nobody writes here from elsewhere any more
    take_x(values, given + inputs, warp, nothing);
#pragma unroll
    for (int unit = 0; unit + 1 < UNITS; unit += 2) add_products<2>(sums, unit, values, ring + inputs, known, warp);
    if (UNITS % 2) add_products<1>(sums, UNITS - 1, values, ring + inputs, known, warp);
    tell(a, sums, (float2*)given, known, first, part, above);
    __syncwarp();
    cluster_wait();
}
