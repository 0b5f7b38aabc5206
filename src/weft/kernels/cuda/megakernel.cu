// One more token of one row through a whole decoder, as one kernel that stays on every multiprocessor.
//
// What a step costs is the time to fetch the weights, so that must never pause. In every block a single thread copies the block's share
// of all weights of all layers, in the order of their use, into a ring of stages in shared memory, as far ahead as the ring has room; it
// waits for nothing else. The other warps take the products from the ring as their inputs become known.
//
// Blocks tell each other results by mail: arrays in global memory, a place of its own for every number of a step. A place holds ABSENT
// until its number is there, which no rounded number is equal to, so whoever needs a number reads its place until it is; there are no
// barriers between blocks, nor flags. A step uses one of two sets of mail and empties the other, which the next step uses.
//
// A product (N, D) is cut into rows, each with D weights: a unit. The last product of a layer reads F times D inputs: a row there is F units.
// A stage has UNITS units, each for one warp of a team. Sums are made in one order every time.
//
// Stage g lies in slot g % STAGES and is read by team g % TEAMS. STAGES is a multiple of TEAMS, so a slot always serves the same team. This
// matters: a wait tells phases of a barrier apart by parity alone, so whoever waits for a phase must know that the phase before is over. Had a
// slot served different teams, a fast team could ask for stage g while stage g - STAGES, another team's, was still on its way, and be let in.
//
// To be defined: LAYERS, D width, HEADS, F, BLOCKS, PARTS (most parts of a head's cache), EPS, KIND of activation, BYTES of shared memory,
// MAIL (half words of a layer's), BATCH (units whose sums are kept until all warps are done; the most of a block and a product in a layer),
// WARPS (that compute), UNITS.

#include "hopper.h"

#ifndef EMULATED
__device__ inline void arrive(long_word* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place_of(barrier)) : "memory");
}
__device__ inline uint4 look(const void* mail) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(mail) : "memory");
    return v;
}
__device__ inline word look_word(const void* mail) {
    word v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(mail) : "memory");
    return v;
}
__device__ inline void tell(half_word* mail, half_word v) { asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(mail), "h"(v) : "memory"); }
__device__ inline void tell_word(word* mail, word v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(mail), "r"(v) : "memory"); }
__device__ inline void together() { asm volatile("bar.sync 1, %0;" ::"n"(32 * WARPS) : "memory"); }
// sums[0] += the products of row g of a with column g of b, and so on; see `diagonal`
__device__ inline void multiply(float (&sums)[4], word a0, word a1, word b0, word b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %5}, {%7, %8}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(0), "r"(a1), "r"(b0), "r"(b1));
}
#endif

constexpr int K = D / HEADS;
constexpr int CHUNK = 8;  // numbers of 16 bits in 16 bytes
constexpr int CHUNKS = D / CHUNK, TURNS = (CHUNKS + 31) / 32;
constexpr int THREADS = 32 * WARPS, TEAMS = WARPS / UNITS;
constexpr int UNIT = 2 * D, STAGE = UNITS * UNIT;  // bytes
constexpr int LANES = K / CHUNK, GROUPS = 32 / LANES;  // lanes that look at one position of the cache; positions that a warp looks at together
constexpr int MOST_PLACES = STAGE / 2 / (2 * K);  // of the cache, whose keys and values fill a stage
constexpr int PART = 64;  // positions of the cache for which another block is worth asking
constexpr int ROWS = (D + BLOCKS - 1) / BLOCKS + 1;  // most rows that a block has of the residual stream
constexpr int SPLIT = 8;  // lanes that hold parts of a unit's sum
constexpr int WIDE = (F * CHUNKS + THREADS - 1) / THREADS;  // chunks of the widest input that a thread fetches
constexpr word ABSENT = 0xFFFFFFFFu;
#define LEAST __uint_as_float(0xFF800000u)
constexpr int POINTERS = 12;  // of a layer
constexpr long long PATIENCE = 20000000000ll;  // clock ticks, some ten seconds, after which something is wrong
constexpr int MOST_BYTES = 51200;  // on their way to a block: enough to keep memory busy, and mail need not stand behind more

static_assert(D % (CHUNK * HEADS) == 0 && 32 % LANES == 0 && WARPS % UNITS == 0 && UNITS % F == 0, "sizes");
static_assert(CHUNKS <= THREADS && HEADS * PARTS <= BLOCKS && MOST_PLACES > 0 && K <= THREADS && BATCH <= THREADS && BATCH % UNITS == 0, "sizes");

// mail of a layer, in half words
constexpr int AFTER_LOOK = 0, AFTER_FEED = D, QKV = 2 * D, AFTER_UP = 5 * D, MIXES = (5 + F) * D, WEIGHTS = MIXES + PARTS * D;
static_assert(WEIGHTS + 2 * HEADS * PARTS <= MAIL && MAIL % CHUNK == 0, "mail");

enum Pointer { QKV_W, QKV_B, OUT_W, OUT_B, UP_W, UP_B, DOWN_W, DOWN_B, NORM1_W, NORM1_B, NORM2_W, NORM2_B };
enum Last { EMBED, POSITION, NORM_W, NORM_B, HEAD_W, LAST };
enum Share { OF_QKV, OF_ROWS, OF_UP, OF_HEAD, SHARES };

struct Args {
    const long_word* pointers;  // POINTERS of each layer, then LAST
    const long long* id;
    long long length;  // tokens in the cache
    long long set;  // of mail, 0 and 1 in turns
    const int* shares;  // SHARES lists, where each block's units begin, and the end
    half_word* mail;  // 2 sets of LAYERS of MAIL
    half_word* keys;
    half_word* values;
    long long layer_stride, head_stride;  // of both, in numbers
    half_word* logits;
};

struct Known {
    long_word pointers[LAYERS * POINTERS + LAST];
    float sum[WARPS], squares[WARPS];
    float own[ROWS];  // the block's rows of the residual stream
    float sums[2][BATCH][SPLIT + 1];  // one place more than needed, so that rows begin in different banks
    float tops[WARPS], totals[WARPS], mixed[WARPS][K];
    uint4 x[F * CHUNKS];  // what a product reads
};
constexpr int LINE = 128;  // where the ring begins is a multiple of this
constexpr int STAGES = (BYTES - LINE - (int)sizeof(Known)) / (STAGE + 2 * (int)sizeof(long_word)) / TEAMS * TEAMS;
constexpr int FLIGHT = MOST_BYTES / STAGE < STAGES ? MOST_BYTES / STAGE : STAGES;  // most stages on their way
struct Shared : Known {
    long_word full[STAGES], empty[STAGES];
};
constexpr int RING = (sizeof(Shared) + LINE - 1) / LINE * LINE;  // where the ring begins
static_assert(FLIGHT > 0 && RING + STAGES * STAGE <= BYTES, "the ring does not fit");
static_assert(STAGES % TEAMS == 0, "a slot of the ring has to serve one team alone");

__device__ inline float low(word w) { return __uint_as_float(w << 16); }
__device__ inline float high(word w) { return __uint_as_float(w & 0xFFFF0000u); }
__device__ inline float rounded_float(float x) { return widened(rounded(x)); }

__device__ inline void unpack(uint4 v, float (&x)[CHUNK]) {
    x[0] = low(v.x), x[1] = high(v.x), x[2] = low(v.y), x[3] = high(v.y);
    x[4] = low(v.z), x[5] = high(v.z), x[6] = low(v.w), x[7] = high(v.w);
}
__device__ inline uint4 pack(const float (&x)[CHUNK]) {
    return make_uint4(packed(x[0], x[1]), packed(x[2], x[3]), packed(x[4], x[5]), packed(x[6], x[7]));
}
__device__ inline bool lacks(word w) { return (w & 0xFFFFu) == 0xFFFFu || w >= 0xFFFF0000u; }
__device__ inline bool lacks(uint4 v) { return lacks(v.x) || lacks(v.y) || lacks(v.z) || lacks(v.w); }

__device__ inline float warp_sum(float x) {
    for (int apart = 16; apart; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
    return x;
}

__device__ inline float activated(float x) {
    if (KIND == 0) return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    if (KIND == 1) return __fdividef(x, 1.0f + __expf(-2.0f * 0.7978845608028654f * (x + 0.044715f * x * x * x)));
    if (KIND == 2) return fmaxf(x, 0.0f);
    if (KIND == 3) return fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    return __fdividef(x, 1.0f + __expf(-x));
}

// A block's units of a product
struct Units {
    int first, units;
    __device__ inline int stages() const { return (units + UNITS - 1) / UNITS; }
};
__device__ inline Units share(const Args& a, int which) {
    int first = a.shares[which * (BLOCKS + 1) + blockIdx.x];
    return {first, a.shares[which * (BLOCKS + 1) + blockIdx.x + 1] - first};
}

// A clock that ends the kernel, and the process's use of the GPU, where something never comes
struct Watch {
    long long begun = 0;
    unsigned looks = 0;
    __device__ inline void look() {
        if (++looks % 256) return;
        if (!begun) begun = clock64();
        if (clock64() - begun > PATIENCE) __trap();
    }
};

__device__ inline void wait_for(long_word* barrier, int parity) {
    Watch watch;
    while (!has_passed(barrier, parity)) watch.look();
}
__device__ inline void look_again(uint4& v, const half_word* mail) {  // only where something lacks: every look takes from the stream
    if (lacks(v)) v = look(mail);
}
__device__ inline uint4 receive(const half_word* mail) {
    Watch watch;
    uint4 v;
    while (lacks(v = look(mail))) watch.look();
    return v;
}

// ---- the thread that fills the ring
struct Feeder {
    Shared* s;
    char* ring;
    long_word policy;
    int count = 0;

    __device__ inline int next() {  // the slot of the next stage, once it is free and not too much is on its way
        int slot = count % STAGES;
        if (count >= STAGES) wait_for(&s->empty[slot], (count / STAGES - 1) & 1);
        int early = count - FLIGHT;
        if (early >= 0) wait_for(&s->full[early % STAGES], early / STAGES & 1);
        ++count;
        return slot;
    }
    __device__ inline void weights(long_word matrix, Units share) {
        const char* at = (const char*)matrix + (long long)share.first * UNIT;
        for (int unit = 0; unit < share.units; unit += UNITS, at += STAGE) {
            int slot = next(), bytes = min(UNITS, share.units - unit) * UNIT;
            arrive_expecting(&s->full[slot], bytes);
            fetch(ring + slot * STAGE, at, bytes, &s->full[slot], policy);
        }
    }
    __device__ inline void cache(const half_word* keys, const half_word* values, int places, int together) {
        for (int place = 0; place < places; place += together) {
            int slot = next(), bytes = min(together, places - place) * 2 * K;
            arrive_expecting(&s->full[slot], 2 * bytes);
            fetch(ring + slot * STAGE, keys + place * K, bytes, &s->full[slot], policy);
            fetch(ring + slot * STAGE + STAGE / 2, values + place * K, bytes, &s->full[slot], policy);
        }
    }
};

// ---- the block's part in a step
struct Job {
    const Args& a;
    Shared* s;
    char* ring;
    half_word* mail;  // of this layer
    int thread, warp, lane, team, member;
    int count = 0;  // stages used by the phases before
    int batch = 0;  // of sums
    int length;  // tokens in the cache
    Units qkv, hidden, of_head;
    int first_row, rows;
    int head, part, parts, begin, places, together_places;  // of the cache: those that this block looks at; head < 0: none
    uint4 scale, shift;  // the thread's, of the norm to come

    __device__ inline const half_word* pointer(int layer, int which) const { return (const half_word*)s->pointers[layer * POINTERS + which]; }

    // x in s->x (D) -> a lane's share of it
    __device__ inline void take(uint4 (&x)[TURNS], int chunk = 0) const {
        for (int i = 0; i < TURNS; ++i) x[i] = lane + 32 * i < CHUNKS ? s->x[chunk + lane + 32 * i] : make_uint4(0, 0, 0, 0);
    }
    __device__ inline int first_stage() const { return (team + TEAMS - count % TEAMS) % TEAMS; }

    // the bias of the thread's result
    __device__ inline float bias_of(const half_word* bias, int first, int units) const {
        return bias && thread < units ? widened(__ldg(bias + first + thread)) : 0.0f;
    }

    // A lane's 16 bytes of a row and of x stand in the same lane: taken as the two factors of a matrix product with 8 rows and columns, for
    // groups of 4 lanes, its diagonal holds the sums of products.
    __device__ inline void keep(int unit, int units, const float (&sums)[4][4]) {
        int group = lane / 4, odd = group % 2;
        if (unit < 0 || unit >= units || group / 2 != lane % 4) return;
        s->sums[batch % 2][unit][group] = odd ? (sums[0][1] + sums[1][1]) + (sums[2][1] + sums[3][1]) : (sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0]);
    }
    // a warp's units of a batch, a row's weights being read while the products of the row before are under way
    __device__ inline void multiply_all(int units, const uint4 (&x)[TURNS]) {
        float sums[4][4] = {};
        int under_way = -1, stages = (units + UNITS - 1) / UNITS;
        for (int stage = first_stage(); stage < stages; stage += TEAMS) {
            int slot = (count + stage) % STAGES;
            uint4 w[TURNS];
            wait_for(&s->full[slot], (count + stage) / STAGES & 1);
            __syncwarp();  // lanes may have left the wait at different times
            const uint4* row = (const uint4*)(ring + slot * STAGE + member * UNIT);
            for (int i = 0; i < TURNS; ++i) w[i] = lane + 32 * i < CHUNKS ? row[lane + 32 * i] : make_uint4(0, 0, 0, 0);
            keep(under_way, units, sums);
            under_way = stage * UNITS + member;
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] = 0;
            for (int i = 0; i < TURNS; ++i) {
                multiply(sums[i % 2 * 2], x[i].x, x[i].y, w[i].x, w[i].y);
                multiply(sums[i % 2 * 2 + 1], x[i].z, x[i].w, w[i].z, w[i].w);
            }
            __syncwarp();
            if (lane == 0) arrive(&s->empty[slot]);
        }
        keep(under_way, units, sums);
        count += stages;
    }
    // done(result, sum) by one thread for each result, the sum of EACH units
    template <int EACH = 1, class Done>
    __device__ inline void product(int units, const uint4 (&x)[TURNS], Done done) {
        int first = 0;
        do {  // once at least, as all warps have to be done with x before another is written
            int here = min(BATCH, units - first);
            multiply_all(here, x);
            together();
            if (thread < here / EACH) {
                float sum = 0;
                for (int i = 0; i < EACH; ++i) {
                    float part = 0;
                    for (int j = 0; j < SPLIT; ++j) part += s->sums[batch % 2][thread * EACH + i][j];
                    sum += part;
                }
                done(first / EACH + thread, sum);
            }
            first += BATCH, ++batch;
        } while (first < units);
    }

    // the residual stream, a chunk for each of the first threads, -> its norm in s->x
    __device__ inline void norm(uint4 v) {
        bool mine = thread < CHUNKS;
        float x[CHUNK], sum = 0, squares = 0, a[CHUNK], b[CHUNK];
        unpack(v, x);
        for (int i = 0; i < CHUNK; ++i) sum += x[i], squares += x[i] * x[i];
        sum = warp_sum(mine ? sum : 0.0f), squares = warp_sum(mine ? squares : 0.0f);
        if (lane == 0) s->sum[warp] = sum, s->squares[warp] = squares;
        for (int i = 0; i < CHUNK; ++i) {
            int row = thread * CHUNK + i - first_row;
            if (mine && 0 <= row && row < rows) s->own[row] = x[i];
        }
        together();
        if (mine) {
            float all = 0, spread = 0;
            for (int w = 0; w < (CHUNKS + 31) / 32; ++w) all += s->sum[w], spread += s->squares[w];
            all *= 1.0f / D;
            float rate = rsqrtf(fmaxf(spread * (1.0f / D) - all * all, 0.0f) + (float)EPS);
            unpack(scale, a), unpack(shift, b);
            for (int i = 0; i < CHUNK; ++i) x[i] = (x[i] - all) * rate * a[i] + b[i];
            s->x[thread] = pack(x);
        }
        together();
    }
    __device__ inline uint4 chunk_of(const half_word* vector) const {
        return vector && thread < CHUNKS ? __ldg((const uint4*)vector + thread) : make_uint4(0, 0, 0, 0);
    }

    // asked for long before it is needed, as memory is slow to answer while weights stream
    __device__ inline void expect_norm(const half_word* weight, const half_word* bias) { scale = chunk_of(weight), shift = chunk_of(bias); }
    __device__ inline void expect_first_norm(int layer) {
        const long_word* last = s->pointers + LAYERS * POINTERS;
        if (layer < LAYERS) expect_norm(pointer(layer, NORM1_W), pointer(layer, NORM1_B));
        else expect_norm((const half_word*)last[NORM_W], (const half_word*)last[NORM_B]);
    }

    // ---- phases
    __device__ inline void queries(int layer, const half_word* before) {
        int first = qkv.first, units = qkv.units;
        float bias = bias_of(pointer(layer, QKV_B), first, units);
        uint4 v = make_uint4(0, 0, 0, 0), x[TURNS];
        if (thread < CHUNKS) v = layer ? receive(before + thread * CHUNK) : embedded();
        norm(v);
        take(x);
        product(units, x, [&](int unit, float sum) {
            int n = first + unit, kind = n / D, within = n % D;
            half_word y = rounded(sum + bias);
            tell(mail + QKV + n, y);
            half_word* kept = kind == 1 ? a.keys : a.values;
            if (kind) kept[layer * a.layer_stride + within / K * a.head_stride + (long long)length * K + within % K] = y;
        });
    }
    __device__ inline uint4 embedded() const {
        const long_word* last = s->pointers + LAYERS * POINTERS;
        float x[CHUNK], y[CHUNK];
        unpack(__ldg((const uint4*)((const half_word*)last[EMBED] + *a.id * D) + thread), x);
        unpack(__ldg((const uint4*)((const half_word*)last[POSITION] + (long long)length * D) + thread), y);
        for (int i = 0; i < CHUNK; ++i) x[i] += y[i];
        return pack(x);
    }

    __device__ inline void attend() {
        if (head < 0) return;
        float q[CHUNK], y[CHUNK], mixed[CHUNK] = {0, 0, 0, 0, 0, 0, 0, 0}, top = LEAST, total = 0;
        int at = lane % LANES, group = lane / LANES;
        const half_word* fresh = mail + QKV + head * K + at * CHUNK;  // of the new token; every warp asks for it, which takes no barrier
        unpack(receive(fresh), q);
        for (int i = 0; i < CHUNK; ++i) q[i] *= rsqrtf((float)K);
        if (part == 0 && warp == 0) {
            float itself = 0;
            unpack(receive(fresh + D), y);
            for (int i = 0; i < CHUNK; ++i) itself += q[i] * y[i];
            for (int apart = 1; apart < LANES; apart *= 2) itself += __shfl_xor_sync(0xFFFFFFFFu, itself, apart);
            unpack(receive(fresh + 2 * D), y);
            if (group == 0) {
                top = itself, total = 1;
                for (int i = 0; i < CHUNK; ++i) mixed[i] = y[i];
            }
        }
        int stages = (places + together_places - 1) / together_places;
        for (int stage = first_stage(); stage < stages; stage += TEAMS) {
            int slot = (count + stage) % STAGES, here = min(together_places, places - stage * together_places);
            wait_for(&s->full[slot], (count + stage) / STAGES & 1);
            const uint4* keys = (const uint4*)(ring + slot * STAGE);
            const uint4* values = (const uint4*)(ring + slot * STAGE + STAGE / 2);
            for (int turn = member * GROUPS; turn < here; turn += UNITS * GROUPS) {
                int place = min(turn + group, here - 1);
                float score = 0;
                unpack(keys[place * LANES + at], y);
                for (int i = 0; i < CHUNK; ++i) score += q[i] * y[i];
                for (int apart = 1; apart < LANES; apart *= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, apart);
                unpack(values[place * LANES + at], y);
                if (turn + group < here) {
                    float higher = fmaxf(top, score), kept = __expf(top - higher), weight = __expf(score - higher);
                    total = total * kept + weight, top = higher;
                    for (int i = 0; i < CHUNK; ++i) mixed[i] = mixed[i] * kept + weight * y[i];
                }
            }
            __syncwarp();
            if (lane == 0) arrive(&s->empty[slot]);
        }
        count += stages;
        for (int apart = LANES; apart < 32; apart *= 2) {  // the groups of a warp
            float other = __shfl_xor_sync(0xFFFFFFFFu, top, apart), higher = fmaxf(top, other);
            float kept = top > LEAST ? __expf(top - higher) : 0.0f, taken = other > LEAST ? __expf(other - higher) : 0.0f;
            total = total * kept + __shfl_xor_sync(0xFFFFFFFFu, total, apart) * taken, top = higher;
            for (int i = 0; i < CHUNK; ++i) mixed[i] = mixed[i] * kept + __shfl_xor_sync(0xFFFFFFFFu, mixed[i], apart) * taken;
        }
        if (lane == 0) s->tops[warp] = top, s->totals[warp] = total;
        for (int i = 0; i < CHUNK && group == 0; ++i) s->mixed[warp][at * CHUNK + i] = mixed[i];
        together();
        if (thread < K) {  // the warps of a block
            float highest = LEAST, sum = 0, mix = 0;
            for (int w = 0; w < WARPS; ++w) highest = fmaxf(highest, s->tops[w]);
            for (int w = 0; w < WARPS; ++w) {
                float weight = s->tops[w] > LEAST ? __expf(s->tops[w] - highest) : 0.0f;
                sum += s->totals[w] * weight, mix += s->mixed[w][thread] * weight;
            }
            int job = head * PARTS + part;
            tell(mail + MIXES + job * K + thread, rounded(sum > 0 ? __fdividef(mix, sum) : 0.0f));
            if (thread == 0) tell_word((word*)(mail + WEIGHTS) + job, __float_as_uint(sum > 0 ? highest + __logf(sum) : LEAST));
        }
    }

    // what the parts of a head found, weighed together, in s->x
    __device__ inline void gather() {
        if (thread < CHUNKS) {
            int h = thread / LANES, at = thread % LANES;
            uint4 found[PARTS];
            word weights[PARTS];
            for (int p = 0; p < PARTS; ++p) found[p] = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT), weights[p] = ABSENT;
            Watch watch;
            for (bool lacking = true; lacking;) {
                lacking = false;
                for (int p = 0; p < PARTS; ++p)
                    if (p < parts) {
                        look_again(found[p], mail + MIXES + (h * PARTS + p) * K + at * CHUNK);
                        if (weights[p] == ABSENT) weights[p] = look_word((const word*)(mail + WEIGHTS) + h * PARTS + p);
                    }
                for (int p = 0; p < PARTS; ++p) lacking = lacking || (p < parts && (lacks(found[p]) || weights[p] == ABSENT));
                if (lacking) watch.look();
            }
            float highest = LEAST, sum = 0, x[CHUNK] = {0, 0, 0, 0, 0, 0, 0, 0}, y[CHUNK];
            for (int p = 0; p < PARTS; ++p)
                if (p < parts) highest = fmaxf(highest, __uint_as_float(weights[p]));
            for (int p = 0; p < PARTS; ++p)
                if (p < parts) {
                    float weight = __expf(__uint_as_float(weights[p]) - highest);
                    sum += weight;
                    unpack(found[p], y);
                    for (int i = 0; i < CHUNK; ++i) x[i] += weight * y[i];
                }
            for (int i = 0; i < CHUNK; ++i) x[i] = __fdividef(x[i], sum);
            s->x[thread] = pack(x);
        }
        together();
    }
    __device__ inline void look_out(int layer) {
        float bias = bias_of(pointer(layer, OUT_B), first_row, rows);
        expect_norm(pointer(layer, NORM2_W), pointer(layer, NORM2_B));
        uint4 x[TURNS];
        gather();
        take(x);
        product(rows, x, [&](int row, float sum) {
            tell(mail + AFTER_LOOK + first_row + row, rounded(s->own[row] + rounded_float(sum + bias)));
        });
    }

    __device__ inline void up(int layer) {
        int first = hidden.first, units = hidden.units;
        float bias = bias_of(pointer(layer, UP_B), first, units);
        uint4 v = make_uint4(0, 0, 0, 0), x[TURNS];
        if (thread < CHUNKS) v = receive(mail + AFTER_LOOK + thread * CHUNK);
        norm(v);
        take(x);
        product(units, x, [&](int unit, float sum) {
            tell(mail + AFTER_UP + first + unit, rounded(activated(rounded_float(sum + bias))));
        });
    }

    __device__ inline void down(int layer) {
        float bias = bias_of(pointer(layer, DOWN_B), first_row, rows);
        expect_first_norm(layer + 1);
        uint4 v[WIDE], x[TURNS];
        for (int i = 0; i < WIDE; ++i) v[i] = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
        Watch watch;
        for (bool lacking = true; lacking;) {
            lacking = false;
            for (int i = 0; i < WIDE; ++i)
                if (thread + i * THREADS < F * CHUNKS) look_again(v[i], mail + AFTER_UP + (thread + i * THREADS) * CHUNK);
            for (int i = 0; i < WIDE; ++i) lacking = lacking || (thread + i * THREADS < F * CHUNKS && lacks(v[i]));
            if (lacking) watch.look();
        }
        for (int i = 0; i < WIDE; ++i)
            if (thread + i * THREADS < F * CHUNKS) s->x[thread + i * THREADS] = v[i];
        together();
        take(x, member % F * CHUNKS);
        product<F>(rows * F, x, [&](int row, float sum) {
            tell(mail + AFTER_FEED + first_row + row, rounded(s->own[row] + rounded_float(sum + bias)));
        });
    }

    __device__ inline void logits(const half_word* before) {
        int first = of_head.first, units = of_head.units;
        uint4 v = make_uint4(0, 0, 0, 0), x[TURNS];
        if (thread < CHUNKS) v = receive(before + thread * CHUNK);
        norm(v);
        take(x);
        product(units, x, [&](int unit, float sum) { a.logits[first + unit] = rounded(sum); });
    }
};

extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) megakernel(const __grid_constant__ Args a) {
    Shared* s = (Shared*)shared_memory();
    char* ring = shared_memory() + RING;
    int thread = threadIdx.x, block = blockIdx.x;
    int length = (int)a.length;
    for (int i = thread; i < LAYERS * POINTERS + LAST; i += THREADS + 32) s->pointers[i] = a.pointers[i];
    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) barrier_init(&s->full[i], 1), barrier_init(&s->empty[i], UNITS);
        barriers_ready();
    }
    __syncthreads();

    int parts = min(PARTS, max(1, (length + PART - 1) / PART));
    int head = block / PARTS, part = block % PARTS;  // as PARTS is fixed, a part's place in the mail is too
    bool looks = head < HEADS && part < parts;
    int begin = looks ? (long long)length * part / parts : 0, places = looks ? (long long)length * (part + 1) / parts - begin : 0;
    int together_places = min(MOST_PLACES, max(1, (places + TEAMS - 1) / TEAMS));
    Units qkv = share(a, OF_QKV), rows = share(a, OF_ROWS), hidden = share(a, OF_UP), of_head = share(a, OF_HEAD);
    Units fallen = {rows.first * F, rows.units * F};

    if (thread >= THREADS) {
        if (thread > THREADS) return;
        Feeder feeder = {s, ring, read_once()};
        for (int layer = 0; layer < LAYERS; ++layer) {
            const long_word* at = s->pointers + layer * POINTERS;
            feeder.weights(at[QKV_W], qkv);
            long long from = layer * a.layer_stride + head * a.head_stride + (long long)begin * K;
            feeder.cache(a.keys + from, a.values + from, places, together_places);
            feeder.weights(at[OUT_W], rows);
            feeder.weights(at[UP_W], hidden);
            feeder.weights(at[DOWN_W], fallen);
        }
        feeder.weights(s->pointers[LAYERS * POINTERS + HEAD_W], of_head);
        return;
    }

    Job job = {a, s, ring, nullptr, thread, thread / 32, thread % 32, thread / 32 / UNITS, thread / 32 % UNITS};
    job.length = length, job.qkv = qkv, job.hidden = hidden, job.of_head = of_head, job.first_row = rows.first, job.rows = rows.units;
    job.head = looks ? head : -1, job.part = part, job.parts = parts;
    job.begin = begin, job.places = places, job.together_places = together_places;
    uint4* next = (uint4*)(a.mail + (a.set ^ 1) * LAYERS * MAIL);
    for (int i = block * THREADS + thread; i < LAYERS * MAIL / 8; i += BLOCKS * THREADS) next[i] = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
    half_word* mail = a.mail + a.set * LAYERS * MAIL;
    job.expect_first_norm(0);
    for (int layer = 0; layer < LAYERS; ++layer, mail += MAIL) {
        job.mail = mail;
        job.queries(layer, mail - MAIL + AFTER_FEED);
        job.attend();
        job.look_out(layer);
        job.up(layer);
        job.down(layer);
    }
    job.logits(mail - MAIL + AFTER_FEED);
}
