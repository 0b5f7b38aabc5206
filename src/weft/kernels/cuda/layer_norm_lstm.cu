// A layer-normalised LSTM over all its steps (see recurrent.cu), whose products of h are normalised over all gates of a row, and c over its
// units. What a row's blocks have of a sum they tell one another, so that a step has three parts, with a flag behind each.
//
// Going forward: products of h and their sums; gates, c and its sums; h. Going backward: what c becomes, with two sums of its gradient; gates,
// with two sums of theirs; the gradient of products of h.

#include "recurrent_steps.h"

#ifndef EMULATED
__device__ inline float2 read8(const void* from) { return __ldcg((const float2*)from); }
#endif

constexpr float EPS = 1e-5f;
constexpr int LINE = (BLOCKS + 1) / 2 * 2;  // places of a row's sums

struct Hold {  // of a pair, from one part of a step to the next
    float one, other;
};
struct Own {  // of a block, behind the sums of its warps
    State* states;
    Hold* pairs;  // (CHUNK, UNITS): what a row's sum is made of
    Hold* rows;  // (B): the two sums of a row, of all blocks
    float* more;  // (B, UNITS, GATES + 2): what the next part reads
};

__device__ inline float2* sums_of(const Args& a, int t, int part, int row) {
    return (float2*)a.sums + (((long long)t * 2 + part) * a.rows + row) * LINE;
}

// The sums of the block's pairs of each row from `top` are told, when all threads have noted theirs
__device__ inline void tell_rows(const Args& a, Own own, int t, int part, int top) {
    __syncthreads();
    int row = top + threadIdx.x;
    if (threadIdx.x < CHUNK && row < a.rows) {
        float2 sum = {0, 0};
        for (int i = 0; i < UNITS; i++) {
            if (first_unit() + i >= H) break;
            Hold of = own.pairs[threadIdx.x * UNITS + i];
            sum.x += of.one, sum.y += of.other;
        }
        sums_of(a, t, part, row)[blockIdx.x] = sum;
    }
    __syncthreads();
}

// Those of all blocks, for every row
__device__ inline void hear_rows(const Args& a, Own own, int t, int part, int least) {
    wait_for(a, 0, PIECES, least);
    for (int row = warp(); row < a.rows; row += WARPS) {
        const float2* from = sums_of(a, t, part, row);
        float one = 0, other = 0;
        for (int i = lane(); i < BLOCKS; i += 32) {
            float2 of = read8(from + i);
            one += of.x, other += of.y;
        }
        for (int apart = 16; apart; apart /= 2) one += __shfl_xor_sync(~0u, one, apart), other += __shfl_xor_sync(~0u, other, apart);
        if (lane() == 0) own.rows[row] = {one, other};
    }
    __syncthreads();
}

__device__ inline Hold moments_of(Hold sums, float number) {
    float mean = sums.one / number, variance = sums.other / number - mean * mean;
    return {mean, rsqrtf((variance > 0 ? variance : 0) + EPS)};
}

__device__ inline bool is_inside(const Args& a, Place at, int t) { return at.real && (!a.lengths || t < a.lengths[at.row]); }

__device__ inline void begin(const Args& a, Own own, const float* h, const float* c) {
    for (int i = threadIdx.x; i < (int)a.rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit < H) own.states[i] = {h[at], c[at]};
    }
    __syncthreads();
}

__device__ inline void end(const Args& a, Own own, float* h, float* c) {
    for (int i = threadIdx.x; i < (int)a.rows * UNITS; i += THREADS) {
        int unit = first_unit() + i % UNITS;
        long long at = (long long)(i / UNITS) * H + unit;
        if (unit < H) h[at] = own.states[i].h, c[at] = own.states[i].c;
    }
}

__device__ inline void forward(const Args& a, uint4* panel, float* parts, Own own) {
    int rows = (int)a.rows, steps = (int)a.steps, raised = 0;
    lay(a, panel, TILES, LENGTH, 0, true);
    begin(a, own, a.h0, a.c0);
    for (int t = 0; t < steps; t++) {
        for (int top = 0; top < rows; top += CHUNK) {
            product<TILES, LENGTH>(a, a.before + (long long)t * PLACE, (long long)steps * PLACE, top, top ? 0 : raised, panel, parts);
            __syncthreads();
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                Hold of = {0, 0};
#pragma unroll
                for (int g = 0; g < GATES; g++) {
                    float u = sum_of(parts, at.row, g * UNITS + at.own % UNITS);
                    a.raw[((at.row * a.steps + t) * GATES + g) * H + at.unit] = own.more[at.own * (GATES + 2) + g] = u;
                    of.one += u, of.other += u * u;
                }
                own.pairs[at.own - top * UNITS] = of;
            }
            tell_rows(a, own, t, 0, top);
        }
        tell(a, ++raised);
        hear_rows(a, own, t, 0, raised);
        for (int top = 0; top < rows; top += CHUNK) {
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                long long step = at.row * a.steps + t;
                Hold moments = moments_of(own.rows[at.row], GATES * H);
                float v[GATES], *more = own.more + at.own * (GATES + 2);
#pragma unroll
                for (int g = 0; g < GATES; g++) {
                    int i = g * H + at.unit;
                    v[g] = widened(a.products[(step * GATES + g) * PLACE + at.unit]) + a.bias[i] + (more[g] - moments.one) * moments.other * a.norm[i] + a.norm_bias[i];
                }
                v[0] = sigmoid(v[0]), v[1] = sigmoid(v[1]), v[2] = tanhf(v[2]), v[3] = sigmoid(v[3]);
                float c = v[1] * own.states[at.own].c + v[0] * v[2];
#pragma unroll
                for (int g = 0; g < GATES; g++) a.gates[(step * GATES + g) * H + at.unit] = v[g];
                a.c[step * H + at.unit] = c;
                if (at.unit == 0) a.moments[step * 4] = moments.one, a.moments[step * 4 + 1] = moments.other;
                more[GATES] = c, more[GATES + 1] = v[3];
                own.pairs[at.own - top * UNITS] = {c, c * c};
            }
            tell_rows(a, own, t, 1, top);
        }
        tell(a, ++raised);
        hear_rows(a, own, t, 1, raised);
        for (int top = 0; top < rows; top += CHUNK) {
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                bool inside = is_inside(a, at, t);
                long long step = at.row * a.steps + t;
                Hold moments = moments_of(own.rows[at.row], H);
                float c = own.more[at.own * (GATES + 2) + GATES], o = own.more[at.own * (GATES + 2) + GATES + 1];
                State now = {o * tanhf((c - moments.one) * moments.other * a.norm_c[at.unit] + a.bias_c[at.unit]), c};
                State next = inside ? now : own.states[at.own];
                if (at.unit == 0) a.moments[step * 4 + 2] = moments.one, a.moments[step * 4 + 3] = moments.other;
                if (t + 1 < steps) a.before[(step + 1) * PLACE + at.unit] = rounded(next.h);
                own.states[at.own] = next;
                a.out[step * H + at.unit] = inside ? next.h : 0.0f;
            }
        }
        __syncthreads();
        tell(a, ++raised);
    }
    end(a, own, a.h_last, a.c_last);
}

__device__ inline void backward(const Args& a, uint4* panel, float* parts, Own own) {
    int rows = (int)a.rows, steps = (int)a.steps, raised = 0;
    const long long apart = (long long)steps * GATES * PLACE;
    lay(a, panel, TILES, LENGTH, 0, false);
    begin(a, own, a.dh, a.dc);
    for (int t = steps - 1; t >= -1; t--) {
        for (int top = 0; top < rows; top += CHUNK) {
            if (raised) {
                product<TILES, LENGTH>(a, a.dinner + (long long)(t + 1) * GATES * PLACE, apart, top, top ? 0 : raised, panel, parts);
                __syncthreads();
            }
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                State d = own.states[at.own];
                Hold of = {0, 0};
                if (raised) d.h += sum_of(parts, at.row, at.own % UNITS);
                if (t >= 0 && is_inside(a, at, t)) {
                    long long step = at.row * a.steps + t, here = step * H + at.unit;
                    float normal = (a.c[here] - a.moments[step * 4 + 2]) * a.moments[step * 4 + 3];
                    float squashed = tanhf(normal * a.norm_c[at.unit] + a.bias_c[at.unit]), o = a.gates[(step * GATES + 3) * H + at.unit];
                    d.h += a.dout[here];
                    float dnorm = a.dnorm[here] = d.h * o * (1 - squashed * squashed), *more = own.more + at.own * (GATES + 2);
                    more[GATES] = dnorm * a.norm_c[at.unit], more[GATES + 1] = d.h * squashed * o * (1 - o);
                    of = {more[GATES], more[GATES] * normal};
                    d.h = 0;
                }
                own.states[at.own] = d;
                own.pairs[at.own - top * UNITS] = of;
            }
            if (t >= 0) tell_rows(a, own, t, 0, top);
        }
        if (t < 0) break;
        tell(a, ++raised);
        hear_rows(a, own, t, 0, raised);
        for (int top = 0; top < rows; top += CHUNK) {
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!at.real) continue;
                Hold of = {0, 0}, sums = own.rows[at.row];
                if (is_inside(a, at, t)) {
                    long long step = at.row * a.steps + t, here = step * H + at.unit;
                    const float *gates = a.gates + step * GATES * H + at.unit, *moments = a.moments + step * 4;
                    float *more = own.more + at.own * (GATES + 2), grads[GATES], i = gates[0], f = gates[H], g = gates[2 * H];
                    float normal = (a.c[here] - moments[2]) * moments[3], before = t ? a.c[here - H] : a.c0[(long long)at.row * H + at.unit];
                    float dc = own.states[at.own].c + moments[3] * (more[GATES] - sums.one / H - normal * sums.other / H);
                    grads[0] = dc * g * i * (1 - i), grads[1] = dc * before * f * (1 - f), grads[2] = dc * i * (1 - g * g), grads[3] = more[GATES + 1];
                    own.states[at.own].c = dc * f;
#pragma unroll
                    for (int k = 0; k < GATES; k++) {
                        a.dproducts[(step * GATES + k) * PLACE + at.unit] = rounded(grads[k]);
                        more[k] = grads[k] * a.norm[k * H + at.unit];
                        of.one += more[k];
                        of.other += more[k] * (a.raw[(step * GATES + k) * H + at.unit] - moments[0]) * moments[1];
                    }
                }
                own.pairs[at.own - top * UNITS] = of;
            }
            tell_rows(a, own, t, 1, top);
        }
        tell(a, ++raised);
        hear_rows(a, own, t, 1, raised);
        for (int top = 0; top < rows; top += CHUNK)
            for (int turn = 0; turn < TURNS; turn++) {
                Place at = place_of(a, top, turn);
                if (!is_inside(a, at, t)) continue;
                long long step = at.row * a.steps + t;
                Hold sums = own.rows[at.row];
                const float *more = own.more + at.own * (GATES + 2), *moments = a.moments + step * 4;
#pragma unroll
                for (int k = 0; k < GATES; k++) {
                    float normal = (a.raw[(step * GATES + k) * H + at.unit] - moments[0]) * moments[1];
                    float du = moments[1] * (more[k] - sums.one / (GATES * H) - normal * sums.other / (GATES * H));
                    a.dinner[(step * GATES + k) * PLACE + at.unit] = rounded(du);
                }
            }
        __syncthreads();
        tell(a, ++raised);
    }
    __syncthreads();
    end(a, own, a.dh, a.dc);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) layer_norm_lstm(const Args a) {
    uint4* panel = (uint4*)shared_memory();
    float* parts = (float*)(panel + PANEL);
    Own own;
    own.states = (State*)(parts + WARPS * CHUNK * WIDE);
    own.pairs = (Hold*)(own.states + a.rows * UNITS);
    own.rows = own.pairs + CHUNK * UNITS;
    own.more = (float*)(own.rows + a.rows);
    if constexpr (BACKWARD)
        backward(a, panel, parts, own);
    else
        forward(a, panel, parts, own);
}
