// What the kernels for one row and for several have in common: the instructions of a Hopper GPU that they are made of, and rounded numbers.
#pragma once

#ifndef EMULATED
typedef unsigned short half_word;
typedef unsigned int word;
typedef unsigned long long long_word;

__device__ inline unsigned place_of(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// ---- the kernel before, which may not have ended when this one begins, and the one after
__device__ inline void wait_for_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ---- barriers of a block that count bytes, and copies of whole rows to shared memory which they count
__device__ inline void barrier_init(long_word* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_of(barrier)), "r"(count) : "memory");
}
__device__ inline void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive_expecting(long_word* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place_of(barrier)), "r"(bytes) : "memory");
}
__device__ inline bool has_passed(long_word* barrier, int parity) {
    unsigned passed;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(passed)
                 : "r"(place_of(barrier)), "r"(parity)
                 : "memory");
    return passed;
}
__device__ inline long_word read_once() {  // weights leave the second-level cache first, so that all else stays there
    long_word policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ inline void fetch(void* to, const void* from, int bytes, long_word* barrier, long_word policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(place_of(to)),
        "l"(from), "r"(bytes), "r"(place_of(barrier)), "l"(policy)
        : "memory");
}

// ---- 16 bytes past the first-level cache, which may hold what lay there before the kernel before
__device__ inline uint4 read16(const void* from) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
    return v;
}

// ---- copies of 16 bytes to shared memory that a thread waits for itself
__device__ inline void copy(void* to, const void* from, bool there) {  // zeros where there is nothing
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place_of(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ inline void arrived() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// ---- matrices of 8 rows of 16 bytes, and products: sums (16, 8) += a (16, 16) b (16, 8)
__device__ inline void load4(word (&to)[4], const void* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(place_of(from))
                 : "memory");
}
__device__ inline void load4_turned(word (&to)[4], const void* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(place_of(from))
                 : "memory");
}
__device__ inline void multiply(float (&sums)[4], const word (&a)[4], word b0, word b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- numbers
__device__ inline half_word rounded(float x) {  // NaN becomes 0x7FFF
    half_word y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
__device__ inline float divided(float x, float y) {  // as Triton divides
    float z;
    asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
__device__ inline char* shared_memory() {
    extern __shared__ __align__(128) char memory[];
    return memory;
}
template <int NUMBER, int COUNT> __device__ inline void together() {  // some warps of a block
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(COUNT) : "memory");
}
#endif

__device__ inline float widened(half_word h) { return __uint_as_float((word)h << 16); }
__device__ inline word packed(float a, float b) { return rounded(a) | (word)rounded(b) << 16; }
