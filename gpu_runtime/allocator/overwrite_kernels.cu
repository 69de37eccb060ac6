// Kernels that fill free memory with known words, and find writes to it. The words are those of
// addresses from `words` on, which for free memory are its own addresses.
//
// The words agree with gpu_runtime/core/src/device/free_word.h, the slots with
// gpu_runtime/core/src/device/cuda_checks.cpp. Addresses and bytes are multiples of 16.

typedef unsigned int u32;
typedef unsigned long long u64;

static const u64 MULTIPLIER_1 = 0x9E3779B97F4A7C15ull;
static const u64 MULTIPLIER_2 = 0xD6E8FEB86659FD93ull;
static const u64 NOT_A_NUMBER = 0x7FF17F817F817F81ull;
static const u64 VARIED_BITS = 0x000F007F007F007Full;
static const u32 SLOTS = 1024;

// The result of a comparison; `comparison` is its number plus one, and 0 in an unused slot.
struct Slot {
    u64 comparison;
    u64 words;
    u64 first_complement;
};

__device__ inline u64 free_word(u64 address) {
    u64 bits = address / 8 * MULTIPLIER_1;
    bits ^= bits >> 32;
    bits *= MULTIPLIER_2;
    return NOT_A_NUMBER | (bits >> 4 & VARIED_BITS);
}

__device__ inline ulonglong2 free_pair(u64 address) {
    return make_ulonglong2(free_word(address), free_word(address + 8));
}

// If all slots are taken, the result is dropped: enough overwrites are known.
__device__ void note(Slot* slots, u64 number, u64 words, u64 first) {
    u32 at = (u32)number;
    for (u32 probe = 0; probe < SLOTS; ++probe, ++at) {
        Slot* slot = slots + at % SLOTS;
        const u64 before = atomicCAS(&slot->comparison, 0ull, number + 1);
        if (before == 0 || before == number + 1) {
            atomicAdd(&slot->words, words);
            atomicMax(&slot->first_complement, ~first);
            return;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) stamp_free(u64 address, u64 bytes, u64 words) {
    const u64 end = address + bytes;
    const u64 step = (u64)gridDim.x * blockDim.x * 16;
    for (u64 at = address + ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 16; at < end;
         at += step) {
        *(ulonglong2*)at = free_pair(words + (at - address));
    }
}

// Repairs each wrong word, so that it is found only once.
extern "C" __global__ void __launch_bounds__(256)
    compare_free(u64 address, u64 bytes, u64 words, u64 number, Slot* slots) {
    const u64 end = address + bytes;
    const u64 step = (u64)gridDim.x * blockDim.x * 16;
    u64 wrong = 0;
    u64 first = 0;
    for (u64 at = address + ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 16; at < end;
         at += step) {
        const ulonglong2 found = __ldcg((const ulonglong2*)at);
        const ulonglong2 expected = free_pair(words + (at - address));
        const bool low = found.x != expected.x;
        const bool high = found.y != expected.y;
        if (low || high) {
            if (wrong == 0) {
                first = low ? at : at + 8;
            }
            wrong += (low ? 1 : 0) + (high ? 1 : 0);
            *(ulonglong2*)at = expected;
        }
    }
    if (wrong != 0) {
        note(slots, number, wrong, first);
    }
}
