// A GPU of fibers, as far as kernels here need one: every thread is a fiber, and gives way where it waits for others.
#pragma once
#define EMULATED
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __launch_bounds__(...)

typedef unsigned short half_word;
typedef unsigned int word;
typedef unsigned long long long_word;
struct uint4 {
    word x, y, z, w;
};
struct float2 {
    float x, y;
};
static inline uint4 make_uint4(word x, word y, word z, word w) { return {x, y, z, w}; }

namespace gpu {  // apart from the names of kernels
struct Meeting {  // of some threads, again and again
    int threads = 0, arrived = 0, round = 0;
};
struct Warp : Meeting {
    word a[32][4], b[32][2];
    float told[32];
};
struct Block : Meeting {
    std::vector<Warp> warps;
    std::vector<char> shared;
};
struct Dim {
    int x;
};
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    Dim thread, block;
    bool done = false;
};
static std::vector<Block> blocks;
static Fiber* now;
static ucontext_t scheduler;
static std::function<void()> work;

static void give_way() { swapcontext(&now->context, &scheduler); }
static void meet(Meeting& m) {
    int round = m.round;
    if (++m.arrived == m.threads)
        m.arrived = 0, m.round++;
    else
        while (m.round == round) give_way();
}
static Block& own_block() { return blocks[now->block.x]; }
static Warp& own_warp() { return own_block().warps[now->thread.x / 32]; }
}  // namespace gpu
#define threadIdx (gpu::now->thread)
#define blockIdx (gpu::now->block)

static void __syncthreads() { gpu::meet(gpu::own_block()); }
static void __syncwarp() { gpu::meet(gpu::own_warp()); }
static char* shared_memory() { return (char*)(((uintptr_t)gpu::own_block().shared.data() + 127) / 128 * 128); }

static int look(const int* flag) {
    gpu::give_way();
    return *flag;
}
static void raise(int* flag, int v) { *flag = v; }
static void give_up() {
    fprintf(stderr, "a block waits forever\n");
    abort();
}
static uint4 read16(const void* from) {
    if ((uintptr_t)from % 16) {
        fprintf(stderr, "16 bytes are read from %p\n", from);
        abort();
    }
    uint4 v;
    memcpy(&v, from, 16);
    return v;
}

static float __uint_as_float(word bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static word __float_as_uint(float x) {
    word bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static half_word rounded(float x) {
    word bits = __float_as_uint(x);
    return x != x ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
#define __expf expf
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static float2 read8(const void* from) {
    float2 v;
    memcpy(&v, from, 8);
    return v;
}
static float __shfl_xor_sync(word, float x, int apart) {
    gpu::Warp& warp = gpu::own_warp();
    int lane = gpu::now->thread.x % 32;
    warp.told[lane] = x;
    gpu::meet(warp);
    x = warp.told[lane ^ apart];
    gpu::meet(warp);
    return x;
}

// mma.m16n8k16 by its definition: a lane holds rows g and g + 8, inputs 2 t and 2 t + 8 and their neighbours, of a, and column g of b
static float element(const word* words, int of_pair) { return __uint_as_float(of_pair ? *words & 0xFFFF0000u : *words << 16); }
static void multiply(float (&sums)[4], const word (&a)[4], word b0, word b1) {
    gpu::Warp& warp = gpu::own_warp();
    int lane = gpu::now->thread.x % 32;
    memcpy(warp.a[lane], a, sizeof a);
    warp.b[lane][0] = b0, warp.b[lane][1] = b1;
    gpu::meet(warp);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            const word* of_a = &warp.a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
            const word* of_b = &warp.b[column * 4 + k % 8 / 2][k / 8];
            sums[i] += element(of_a, k % 2) * element(of_b, k % 2);
        }
    gpu::meet(warp);
}

namespace gpu {
static void enter() {
    work();
    now->done = true;
    give_way();
}

static void launch(int number, int threads, int shared, std::function<void()> kernel) {
    work = kernel;
    blocks.assign(number, Block());
    std::vector<std::unique_ptr<Fiber>> fibers;
    for (int b = 0; b < number; b++) {
        blocks[b].threads = threads, blocks[b].shared.resize(shared + 128);
        blocks[b].warps.resize(threads / 32);
        for (Warp& warp : blocks[b].warps) warp.threads = 32;
        for (int t = 0; t < threads; t++) {
            fibers.emplace_back(new Fiber);
            Fiber& fiber = *fibers.back();
            fiber.stack.resize(1 << 16), fiber.thread = {t}, fiber.block = {b};
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data(), fiber.context.uc_stack.ss_size = fiber.stack.size();
            makecontext(&fiber.context, enter, 0);
        }
    }
    for (bool left = true; left;) {
        left = false;
        for (size_t i = fibers.size(); i-- > 0;) {  // the last first, so that nothing depends on the first being first
            if (fibers[i]->done) continue;
            now = fibers[i].get(), left = true;
            swapcontext(&scheduler, &now->context);
        }
    }
}
}  // namespace gpu
