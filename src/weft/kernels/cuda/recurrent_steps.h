// What kernels that take a recurrent layer through all its steps have in common: how its units are shared out, the panels of weights,
// products, and flags. recurrent.cu says what they are for. Included behind the definitions of a cell.
#pragma once
#include "hopper.h"
#include "recurrent_cells.h"

#ifndef EMULATED
__device__ inline int look(const int* flag) {
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
    return v;
}
__device__ inline void raise(int* flag, int v) { asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(v) : "memory"); }
__device__ inline void give_up() { __trap(); }
#endif

constexpr int PIECE = 32, CHUNK = 32;  // inputs, and rows, that are taken together
constexpr int PLACE = (H + PIECE - 1) / PIECE * PIECE, PIECES = PLACE / PIECE;
constexpr int THREADS = 32 * WARPS;
constexpr int FIRST_GATES = TWICE ? 2 : GATES;  // of a step's first product
constexpr int COLUMNS = (BACKWARD ? 1 : FIRST_GATES) * UNITS, TILES = (COLUMNS + 7) / 8, LENGTH = (BACKWARD ? FIRST_GATES : 1) * PIECES;
constexpr int MORE_TILES = (UNITS + 7) / 8, MORE_LENGTH = PIECES;  // of its second
constexpr int WIDE = 8 * TILES, PANEL = 32 * TILES * LENGTH, MORE_PANEL = TWICE ? 32 * MORE_TILES * MORE_LENGTH : 0;
constexpr int PAIRS = CHUNK * UNITS, TURNS = (PAIRS + THREADS - 1) / THREADS;  // of rows and units
constexpr int BLOCKS = (H + UNITS - 1) / UNITS;
constexpr int PATIENCE = 1 << 26;  // looks at a flag, seconds of them, after which something is wrong
static_assert(MORE_TILES <= TILES, "sizes");

struct Args {
    const half_word* products;  // (B, T, G, PLACE), of the inputs
    const float* weight;  // (G, H, H)
    const float *bias, *inner_bias, *peephole;  // (G, H), (H) of a GRU's n, (3, H)
    const float *h0, *c0;  // (B, H)
    const long long* lengths;  // (B), or nothing where all are T
    half_word* before;  // (B, T, PLACE): h before each step, the first of which is there
    half_word* inner;  // (B, T, PLACE): Cho's r h
    float *out, *gates, *c, *more;  // (B, T, …): H, G H, H, H
    float *h_last, *c_last;  // (B, H)
    const float* dout;  // (B, T, H)
    float *dh, *dc;  // (B, H): of the last state, then of the first
    half_word *dproducts, *dinner;  // (B, T, G, PLACE), zeros at first: gradients of products of the inputs; of those of h, where others
    // of a layer-normalised LSTM: scale and shift of products of h (G, H) and of c (H); before they are normalised, products of h (B, T, G, H);
    // sums of the blocks (T, 2, B, BLOCKS, 2); the gradient of what c becomes (B, T, H)
    const float *norm, *norm_bias, *norm_c, *bias_c;
    float *raw, *moments, *sums, *dnorm;  // moments (B, T, 4): mean of those products and one over their deviation, and of c
    int* flags;  // (BLOCKS), zeros
    long long rows, steps;
};

struct Place {  // of a thread's pair
    int row, unit, own;
    bool real;
};

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }
__device__ inline int first_unit() { return blockIdx.x * UNITS; }

// Lays the block's panel: number (k, n) of a product. turned: columns are rows of the weight
__device__ inline void lay(const Args& a, uint4* panel, int tiles, int length, int gate, bool turned) {
    for (int i = threadIdx.x; i < 32 * tiles * length; i += THREADS) {
        int piece = i / 32 / tiles, column = i / 32 % tiles * 8 + i % 32 / 4, k = piece * PIECE + i % 4 * 8;
        int across = gate + (turned ? column / UNITS : k / PLACE), unit = first_unit() + column % UNITS, other = turned ? k : k % PLACE;
        bool there = unit < H && (turned ? across < gate + (gate ? 1 : FIRST_GATES) : column < UNITS);
        float v[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            long long row = (long long)across * H + (turned ? unit : other + j), col = turned ? other + j : unit;
            v[j] = there && other + j < H ? a.weight[row * H + col] : 0.0f;
        }
        panel[i] = make_uint4(packed(v[0], v[1]), packed(v[2], v[3]), packed(v[4], v[5]), packed(v[6], v[7]));
    }
}

// Until blocks that made some pieces of a number of steps have raised their flags so high
__device__ inline void wait_for(const Args& a, int begin, int end, int least) {
    if (begin < end) {
        bool whole = end - begin >= PIECES || begin % PIECES > (end - 1) % PIECES;  // of all units
        int from = whole ? 0 : begin % PIECES * PIECE / UNITS, last = whole ? BLOCKS - 1 : ((end - 1) % PIECES * PIECE + PIECE - 1) / UNITS;
        for (int i = from + lane(); i <= (last < BLOCKS ? last : BLOCKS - 1); i += 32) {
            int tries = 0;
            while (look(a.flags + i) < least)
                if (++tries > PATIENCE) give_up();
        }
    }
    __syncwarp();
}

// parts (WARPS, CHUNK, WIDE): sums of each warp, of rows from `top` of x (rows, apart) times a panel
template <int TILES_, int LENGTH_>
__device__ inline void product(const Args& a, const half_word* x, long long apart, int top, int least, const uint4* panel, float* parts) {
    int begin = LENGTH_ * warp() / WARPS, end = LENGTH_ * (warp() + 1) / WARPS, rows = (int)a.rows;
    float sums[2][TILES_][4] = {};
    if (least) wait_for(a, begin, end, least);
    const half_word* lines[2][2];
#pragma unroll
    for (int m = 0; m < 4; m++) {
        int row = top + 8 * m + lane() / 4;
        lines[m / 2][m % 2] = x + (row < rows ? row : rows - 1) * apart + lane() % 4 * 8;
    }
    for (int p = begin; p < end; p += AHEAD) {
        uint4 ahead[AHEAD][2][2];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int m = 0; m < 4; m++)
                ahead[i][m / 2][m % 2] = p + i < end && top + 8 * m < rows ? read16(lines[m / 2][m % 2] + (p + i) * PIECE) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (p + i >= end) break;
#pragma unroll
            for (int n = 0; n < TILES_; n++) {
                uint4 w = panel[((p + i) * TILES_ + n) * 32 + lane()];
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    if (top + 16 * m >= rows) break;
                    uint4 low = ahead[i][m][0], high = ahead[i][m][1];
                    word even[4] = {low.x, high.x, low.y, high.y}, odd[4] = {low.z, high.z, low.w, high.w};
                    multiply(sums[m][n], even, w.x, w.y);
                    multiply(sums[m][n], odd, w.z, w.w);
                }
            }
        }
    }
    float* own = parts + warp() * CHUNK * WIDE;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < TILES_; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) own[(16 * m + i / 2 * 8 + lane() / 4) * WIDE + 8 * n + lane() % 4 * 2 + i % 2] = sums[m][n][i];
}

__device__ inline float sum_of(const float* parts, int row, int column) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += parts[(w * CHUNK + row % CHUNK) * WIDE + column];
    return sum;
}

// The pair of a thread's turn among the rows from `top`
__device__ inline Place place_of(const Args& a, int top, int turn) {
    int pair = threadIdx.x + turn * THREADS, row = top + pair / UNITS, own = pair % UNITS;
    return {row, first_unit() + own, row * UNITS + own, pair < PAIRS && row < a.rows && first_unit() + own < H};
}

__device__ inline Peephole peephole_of(const Args& a, int unit) {
    if constexpr (CELL == PEEPHOLE) return {a.peephole[unit], a.peephole[H + unit], a.peephole[2 * H + unit]};
    return {0, 0, 0};
}

// Behind a step, when the block's threads have met: what they wrote is told to all
__device__ inline void tell(const Args& a, int done) {
    if (threadIdx.x == 0) raise(a.flags + blockIdx.x, done);
}
