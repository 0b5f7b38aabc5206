// A recurrent layer over all its steps, forward (BACKWARD 0) or backward (1), as one kernel that stays on the multiprocessors.
//
// A block has some units of the layer. It holds their recurrent weights in shared memory, in bf16, for all steps; a step multiplies them by
// what all blocks made of the step before: h going forward, the gradients of gates going backward. These lie in global memory, a place
// of its own for every step, so nothing is written over; a block raises its flag behind a step, and whoever reads waits for the flags
// of those blocks alone whose numbers it reads. Products of the inputs, and the gradients of weights, are large products over all steps and
// are made outside.
//
// Warps divide a product along its inner size, whose sums are then added in one order, so that results are the same every time. Within 32
// inputs their order is free as long as both factors have the same: a lane takes 8 neighbours of a row, 16 bytes, and needs no exchange
// with others. The panel of weights lies in the order in which lanes read it.
//
// Shapes: B rows, T steps, G gates, H width; PLACE, H filled up to a multiple of 32, is the size of a gate where products read it.
// To be defined: BACKWARD, CELL, H, UNITS of a block, WARPS, AHEAD (pieces of 32 inputs that a warp fetches at once).

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

// That of a pair's step
__device__ inline Left left_of(const Args& a, Place at, int t) {
    Left left = {};
    if (!at.real || t < 0 || a.lengths && t >= a.lengths[at.row]) return left;
    long long step = at.row * a.steps + t, first = (long long)at.row * H + at.unit, here = step * H + at.unit;
#pragma unroll
    for (int g = 0; g < GATES; g++) left.gates[g] = a.gates[(step * GATES + g) * H + at.unit];
    if (CELL == GRU || TWICE) left.before.h = t ? a.out[here - H] : a.h0[first];
    if (WITH_MEMORY) left.before.c = t ? a.c[here - H] : a.c0[first], left.c = a.c[here];
    if (CELL == GRU) left.more = a.more[here];
    left.dout = a.dout[here];
    return left;
}

__device__ inline void forward(const Args& a, uint4* panel, float* parts, State* states) {
    int rows = (int)a.rows, steps = (int)a.steps, raised = 0;
    lay(a, panel, TILES, LENGTH, 0, true);
    if constexpr (TWICE) lay(a, panel + PANEL, MORE_TILES, MORE_LENGTH, 2, true);
    for (int i = threadIdx.x; i < rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit < H) states[i] = {a.h0[at], WITH_MEMORY ? a.c0[at] : 0.0f};
    }
    __syncthreads();
    for (int t = 0; t < steps; t++) {
        for (int top = 0; top < rows; top += CHUNK) {
            float x[TURNS][GATES];
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {  // on their way while the warp waits
                Place at = place_of(a, top, turn);
#pragma unroll
                for (int g = 0; g < GATES; g++)
                    x[turn][g] = at.real ? widened(a.products[(((long long)at.row * steps + t) * GATES + g) * PLACE + at.unit]) + a.bias[g * H + at.unit] : 0;
            }
            product<TILES, LENGTH>(a, a.before + (long long)t * PLACE, (long long)steps * PLACE, top, top ? 0 : raised, panel, parts);
            __syncthreads();
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                bool inside = !a.lengths || t < a.lengths[at.row];
                long long step = (long long)at.row * steps + t;
                float u[GATES] = {}, gates[GATES] = {}, more = 0;
                State old = states[at.own];
#pragma unroll
                for (int g = 0; g < FIRST_GATES; g++) u[g] = sum_of(parts, at.row, g * UNITS + at.own % UNITS);
                State now = cell_forward(x[turn], u, old, peephole_of(a, at.unit), CELL == GRU ? a.inner_bias[at.unit] : 0.0f, gates, more);
                if constexpr (TWICE) {
                    a.inner[step * PLACE + at.unit] = rounded(now.h);
                } else {
                    State next = inside ? now : old;
                    if (t + 1 < steps) a.before[(step + 1) * PLACE + at.unit] = rounded(next.h);
                    states[at.own] = next;
                    a.out[step * H + at.unit] = inside ? next.h : 0.0f;
                    if (WITH_MEMORY) a.c[step * H + at.unit] = next.c;
                    if (CELL == GRU) a.more[step * H + at.unit] = more;
                }
#pragma unroll
                for (int g = 0; g < FIRST_GATES; g++) a.gates[(step * GATES + g) * H + at.unit] = gates[g];
            }
            __syncthreads();  // all have read the sums
        }
        tell(a, ++raised);
        if constexpr (TWICE) {
            for (int top = 0; top < rows; top += CHUNK) {
                product<MORE_TILES, MORE_LENGTH>(a, a.inner + (long long)t * PLACE, (long long)steps * PLACE, top, top ? 0 : raised, panel + PANEL, parts);
                __syncthreads();
                for (int turn = 0; turn < TURNS; turn++) {
                    Place at = place_of(a, top, turn);
                    if (!at.real) continue;
                    bool inside = !a.lengths || t < a.lengths[at.row];
                    long long step = (long long)at.row * steps + t;
                    float x = widened(a.products[(step * GATES + 2) * PLACE + at.unit]) + a.bias[2 * H + at.unit], n;
                    float h = states[at.own].h, z = a.gates[(step * GATES + 1) * H + at.unit];
                    float now = cho_forward(x, sum_of(parts, at.row, at.own % UNITS), z, h, n), next = inside ? now : h;
                    a.gates[(step * GATES + 2) * H + at.unit] = n;
                    if (t + 1 < steps) a.before[(step + 1) * PLACE + at.unit] = rounded(next);
                    states[at.own].h = next;
                    a.out[step * H + at.unit] = inside ? next : 0.0f;
                }
                __syncthreads();
            }
            tell(a, ++raised);
        }
    }
    for (int i = threadIdx.x; i < rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit >= H) continue;
        a.h_last[at] = states[i].h;
        if (WITH_MEMORY) a.c_last[at] = states[i].c;
    }
}

__device__ inline void backward(const Args& a, uint4* panel, float* parts, State* states) {
    int rows = (int)a.rows, steps = (int)a.steps, raised = 0;
    half_word* read = CELL == GRU ? a.dinner : a.dproducts;  // by the products
    const long long apart = (long long)steps * GATES * PLACE;
    lay(a, panel, TILES, LENGTH, 0, false);
    if constexpr (TWICE) lay(a, panel + PANEL, MORE_TILES, MORE_LENGTH, 2, false);
    for (int i = threadIdx.x; i < rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit < H) states[i] = {a.dh[at], WITH_MEMORY ? a.dc[at] : 0.0f};
    }
    __syncthreads();
    for (int t = steps - 1; t >= -1; t--) {
        for (int top = 0; top < rows; top += CHUNK) {
            Left left[TURNS];
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) left[turn] = left_of(a, place_of(a, top, turn), t);  // on its way while the warp waits
            if (raised) {
                product<TILES, LENGTH>(a, read + (long long)(t + 1) * GATES * PLACE, apart, top, top ? 0 : raised, panel, parts);
                __syncthreads();
            }
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                State d = states[at.own];
                if (raised) d.h += sum_of(parts, at.row, at.own % UNITS);
                if (t >= 0 && (!a.lengths || t < a.lengths[at.row])) {
                    float grads[GATES] = {}, inner = 0;
                    d.h += left[turn].dout;
                    d = cell_backward(left[turn], peephole_of(a, at.unit), d, grads, inner);
                    long long step = (at.row * a.steps + t) * GATES * PLACE + at.unit;
#pragma unroll
                    for (int g = TWICE; g < GATES; g++) {
                        half_word now = rounded(grads[g]);
                        a.dproducts[step + g * PLACE] = now;
                        if (CELL == GRU) a.dinner[step + g * PLACE] = g == 2 ? rounded(inner) : now;
                    }
                }
                states[at.own] = d;
            }
            __syncthreads();
        }
        tell(a, ++raised);
        if constexpr (TWICE) {
            if (t < 0) break;
            for (int top = 0; top < rows; top += CHUNK) {
                product<MORE_TILES, MORE_LENGTH>(a, read + ((long long)t * GATES + 2) * PLACE, apart, top, top ? 0 : raised, panel + PANEL, parts);
                __syncthreads();
                for (int turn = 0; turn < TURNS; turn++) {
                    Place at = place_of(a, top, turn);
                    if (!at.real || a.lengths && t >= a.lengths[at.row]) continue;
                    long long step = (long long)at.row * steps + t;
                    float d = sum_of(parts, at.row, at.own % UNITS), r = a.gates[step * GATES * H + at.unit];
                    float h = t ? a.out[(step - 1) * H + at.unit] : a.h0[(long long)at.row * H + at.unit];
                    a.dproducts[step * GATES * PLACE + at.unit] = rounded(d * h * r * (1 - r));
                    states[at.own].h += d * r;
                }
                __syncthreads();
            }
            tell(a, ++raised);
        }
    }
    for (int i = threadIdx.x; i < rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit >= H) continue;
        a.dh[at] = states[i].h;
        if (WITH_MEMORY) a.dc[at] = states[i].c;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) recurrent(const Args a) {
    uint4* panel = (uint4*)shared_memory();
    float* parts = (float*)(panel + PANEL + MORE_PANEL);
    State* states = (State*)(parts + WARPS * CHUNK * WIDE);
    if constexpr (BACKWARD)
        backward(a, panel, parts, states);
    else
        forward(a, panel, parts, states);
}
