// One node of a program: stamps the tensors it makes, then checks the tensors it reads.
//
// Note: phases in one launch.
// Rationale: what a node reads and makes lives while it runs, so every check comes after every
// stamp; and a node is one launch.
// Approach: the work is a list of chunks, stamps first, that the blocks draw in order by tickets.
// A block with a check waits until all stamps are done. Stamps have lower tickets, so they are in
// the hands of blocks that run already and never wait for a check: whatever else holds the device,
// the wait ends. Delays work the same way: who draws the first ticket, or the first check, spins,
// and the others wait for its flag.
// A node that only stamps or only checks, and is not delayed, waits for nothing: there chunks are
// dealt out without tickets, and the warps of a block need not keep together.
// Limits: a delayed node keeps its blocks resident while it waits, so a node that is held long is
// launched with few.
//
// The arithmetic is that of gpu_runtime/verification/trials/stamp_pattern.py.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Chunk {
    u64 begin;
    u32 bytes;
    u32 tensor;
};

struct Node {
    u32 first_chunk;
    u32 stamp_chunks;
    u32 chunks;
    u32 unused;
};

struct Progress {
    u32 tickets;
    u32 stamped;
    u32 begun;
    u32 released;
};

struct Slot {
    u64 pair;
    u64 words;
    u64 first_complement;
};

struct Broken {
    u64 word;
    u64 found;
    u32 victim;
    u32 mask;
};

struct Findings {
    u32 wrong;
    u32 broken;
    u32 lost;
    u32 unused;
};

struct Delay {
    u64 before_ns;
    u64 within_ns;
};

struct Program {
    u8* arena;
    const Chunk* chunks;
    const Node* nodes;
    Progress* progress;
    const Delay* delays;
    const u64* key;
    Findings* findings;
    Slot* slots;
    Broken* broken;
    u32 tensors;
    u32 slot_mask;
    u32 broken_capacity;
    u32 unused;
};

static const int TENSOR_BITS = 25;
static const u64 MULTIPLIER_1 = 0x9E3779B97F4A7C15ull;
static const u64 MULTIPLIER_2 = 0xD6E8FEB86659FD93ull;
static const u64 STEP = MULTIPLIER_1 << TENSOR_BITS;
static const u32 MAX_PROBES = 64;
static const u32 WHOLE_WORD = 0xff;
static const int UNROLL = 4;

__device__ inline u64 inverse(u64 odd) {
    u64 result = odd;  // right to 3 bits; each step doubles them
    for (int i = 0; i < 5; ++i) {
        result *= 2 - odd * result;
    }
    return result;
}

// `base` is the tensor's part under the trial's key.
__device__ inline u64 pattern(u64 base, u64 word) {
    u64 bits = base + word * STEP;
    bits ^= bits >> 32;
    return bits * MULTIPLIER_2;
}

__device__ void note_broken(const Program& p, u32 victim, u64 word, u64 found, u32 mask) {
    const u32 at = atomicAdd(&p.findings->broken, 1u);
    if (at < p.broken_capacity) {
        p.broken[at] = Broken{word, found, victim, mask};
    } else {
        atomicAdd(&p.findings->lost, 1u);
    }
}

__device__ void note_foreign(const Program& p, u32 victim, u32 writer, u64 word) {
    const u64 pair = (u64)(victim + 1) << 32 | writer;
    u32 at = (u32)((pair * MULTIPLIER_1) >> 32);
    for (u32 probe = 0; probe < MAX_PROBES; ++probe, ++at) {
        Slot* slot = p.slots + (at & p.slot_mask);
        const u64 before = atomicCAS(&slot->pair, 0ull, pair);
        if (before == 0 || before == pair) {
            atomicAdd(&slot->words, 1ull);
            atomicMax(&slot->first_complement, ~word);
            return;
        }
    }
    atomicAdd(&p.findings->lost, 1u);
}

__device__ void note_wrong(const Program& p, u32 victim, u64 word, u64 found, u32 mask, u64 key) {
    p.findings->wrong = 1;
    if (mask == WHOLE_WORD) {
        u64 bits = found * inverse(MULTIPLIER_2);
        bits ^= bits >> 32;
        bits = bits * inverse(MULTIPLIER_1) - key;
        const u32 writer = (u32)(bits & ((1u << TENSOR_BITS) - 1));
        if (bits >> TENSOR_BITS == word && writer < p.tensors) {
            note_foreign(p, victim, writer, word);
            return;
        }
    }
    note_broken(p, victim, word, found, mask);
}

// The bytes [begin, end) are stored one by one: a neighbour in the same word is another tensor's.
__device__ void stamp_bytes(const Program& p, u64 base, u64 begin, u64 end) {
    for (u64 at = begin + threadIdx.x; at < end; at += blockDim.x) {
        p.arena[at] = (u8)(pattern(base, at / 8) >> (at % 8 * 8));
    }
}

__device__ void check_bytes(const Program& p, u32 tensor, u64 key, u64 base, u64 begin, u64 end) {
    for (u64 word = begin / 8 + threadIdx.x; word * 8 < end; word += blockDim.x) {
        const u64 expected = pattern(base, word);
        u64 found = 0;
        u64 wrong = 0;
        u32 mask = 0;
        for (u32 byte = 0; byte < 8; ++byte) {
            const u64 at = word * 8 + byte;
            if (at < begin || at >= end) {
                continue;
            }
            const u64 bits = (u64)__ldcg(p.arena + at) << (byte * 8);
            found |= bits;
            mask |= 1u << byte;
            wrong |= bits ^ (expected & (0xffull << (byte * 8)));
        }
        if (wrong != 0) {
            note_wrong(p, tensor, word, found, mask, key);
        }
    }
}

__device__ void stamp_pairs(const Program& p, u64 base, u64 first, u64 last) {
    ulonglong2* pairs = (ulonglong2*)p.arena;
#pragma unroll 4
    for (u64 at = first + threadIdx.x; at < last; at += blockDim.x) {
        pairs[at] = make_ulonglong2(pattern(base, 2 * at), pattern(base, 2 * at + 1));
    }
}

__device__ inline void check_pair(const Program& p, u32 tensor, u64 key, u64 base, u64 at,
                                  ulonglong2 found) {
    if (found.x != pattern(base, 2 * at)) {
        note_wrong(p, tensor, 2 * at, found.x, WHOLE_WORD, key);
    }
    if (found.y != pattern(base, 2 * at + 1)) {
        note_wrong(p, tensor, 2 * at + 1, found.y, WHOLE_WORD, key);
    }
}

// Loads pass the first-level cache by: blocks elsewhere stamp while this kernel runs.
__device__ void check_pairs(const Program& p, u32 tensor, u64 key, u64 base, u64 first, u64 last) {
    const ulonglong2* pairs = (const ulonglong2*)p.arena;
    const u64 step = blockDim.x;
    u64 at = first + threadIdx.x;
    for (; at + (UNROLL - 1) * step < last; at += UNROLL * step) {
        ulonglong2 found[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            found[i] = __ldcg(pairs + at + i * step);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            check_pair(p, tensor, key, base, at + i * step, found[i]);
        }
    }
    for (; at < last; at += step) {
        check_pair(p, tensor, key, base, at, __ldcg(pairs + at));
    }
}

__device__ void work(const Program& p, const Chunk& chunk, bool stamps, u64 key) {
    const u64 base = (chunk.tensor + key) * MULTIPLIER_1;
    const u64 begin = chunk.begin;
    const u64 end = begin + chunk.bytes;
    u64 first = (begin + 15) / 16;
    u64 last = end / 16;
    if (first > last) {  // within one pair
        first = last;
    }
    const u64 head_end = first < last ? first * 16 : end;
    if (stamps) {
        stamp_bytes(p, base, begin, head_end);
        stamp_pairs(p, base, first, last);
        if (first < last) {
            stamp_bytes(p, base, last * 16, end);
        }
    } else {
        check_bytes(p, chunk.tensor, key, base, begin, head_end);
        check_pairs(p, chunk.tensor, key, base, first, last);
        if (first < last) {
            check_bytes(p, chunk.tensor, key, base, last * 16, end);
        }
    }
}

__device__ inline u64 now_ns() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

__device__ void spin(u64 ns) {
    const u64 begun = now_ns();
    while (now_ns() - begun < ns) {
        __nanosleep(500);
    }
}

__device__ void wait_for(u32* counter, u32 value) {
    while (*(volatile u32*)counter < value) {
        __nanosleep(100);
    }
    __threadfence();
}

// Thread 0 alone: returns once the chunk of a ticket may be worked on.
__device__ void await_turn(const Node& node, Progress* progress, const Delay& delay, u32 ticket) {
    if (delay.before_ns != 0) {
        if (ticket == 0) {
            spin(delay.before_ns);
            atomicExch(&progress->begun, 1u);
        } else {
            wait_for(&progress->begun, 1);
        }
    }
    if (ticket < node.stamp_chunks) {
        return;
    }
    wait_for(&progress->stamped, node.stamp_chunks);
    if (delay.within_ns != 0) {
        if (ticket == node.stamp_chunks) {
            spin(delay.within_ns);
            atomicExch(&progress->released, 1u);
        } else {
            wait_for(&progress->released, 1);
        }
    }
}

extern "C" __global__ void __launch_bounds__(512, 2) run_node(const Program p, u32 index) {
    __shared__ u32 drawn;
    const Node node = p.nodes[index];
    Progress* progress = p.progress + index;
    const Delay delay = p.delays[index];
    const u64 key = *p.key;
    const bool is_dealt = (node.stamp_chunks == 0 || node.stamp_chunks == node.chunks) &&
                          delay.before_ns == 0 && delay.within_ns == 0;
    u32 ticket = blockIdx.x;
    u32 next = 0;
    if (!is_dealt && threadIdx.x == 0) {
        next = atomicAdd(&progress->tickets, 1u);
    }
    for (;;) {
        if (!is_dealt) {
            if (threadIdx.x == 0) {
                drawn = next;
            }
            __syncthreads();
            ticket = drawn;
        }
        if (ticket >= node.chunks) {
            return;
        }
        if (!is_dealt) {
            if (threadIdx.x == 0) {
                await_turn(node, progress, delay, ticket);
                // Drawn ahead, so that its latency passes under the work.
                next = atomicAdd(&progress->tickets, 1u);
            }
            __syncthreads();
        }
        const bool stamps = ticket < node.stamp_chunks;
        work(p, p.chunks[node.first_chunk + ticket], stamps, key);
        if (is_dealt) {
            ticket += gridDim.x;
            continue;
        }
        __syncthreads();
        if (stamps && node.stamp_chunks < node.chunks && threadIdx.x == 0) {
            __threadfence();
            atomicAdd(&progress->stamped, 1u);
        }
    }
}
