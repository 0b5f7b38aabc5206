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

#include "recurrent_steps.h"

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
