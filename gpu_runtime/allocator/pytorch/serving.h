// What the decorator of PyTorch's allocator asks of the core: a table of plain C functions.
//
// The decorator is compiled against the PyTorch that is installed, the core is not, so nothing of
// C++ passes between them. One table serves all devices and lives as long as the process. Every
// function may be called from any thread, with or without the interpreter's lock, until the very
// end of the process; none throws, none runs Python, none calls PyTorch. Planned memory holds no
// lock while it waits for the device; an online allocator does, as PyTorch's own allocator.
//
// Devices are CUDA's numbers, in [0, GAPLESS_DEVICES); streams are cudaStream_t as numbers, 0 the
// default stream.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GAPLESS_SERVING_VERSION 1
#define GAPLESS_DEVICES 64

#ifdef __cplusplus
extern "C" {
#endif

// Bytes of a device at this moment. The core writes them in its own lock, as single words, before
// the call that changed them returns; anybody may read them at any time, without one.
typedef struct GaplessGauge {
    int64_t allocated_bytes;  // rounded up to blocks
    int64_t reserved_bytes;   // physical memory
} GaplessGauge;

// The totals only grow: what was freed is `total - current`.
typedef struct GaplessStat {
    int64_t current;
    int64_t peak;   // since reset_peaks()
    int64_t total;  // everything that was ever added to `current`
} GaplessStat;

// Blocks whose request was of at most 1 MiB, as PyTorch divides them, and larger ones. Segments
// and reserved bytes count as large ones.
typedef struct GaplessStatsOfSize {
    GaplessStat allocation;       // blocks
    GaplessStat active;           // blocks: those, and freed ones that a stream still uses
    GaplessStat segment;          // ranges of addresses with memory behind them
    GaplessStat requested_bytes;  // what was asked for
    GaplessStat allocated_bytes;  // rounded up to blocks
    GaplessStat active_bytes;
    GaplessStat reserved_bytes;  // physical memory
} GaplessStatsOfSize;

typedef struct GaplessStatistics {
    GaplessStatsOfSize small, large;
    // Of both sizes together, since peaks cannot be added.
    int64_t allocation_peak, active_peak;
    int64_t requested_bytes_peak, allocated_bytes_peak, active_bytes_peak;
    int64_t device_allocations, device_frees;  // calls to the driver, ever
} GaplessStatistics;

// A range of addresses that has memory behind it from its first to its last byte.
typedef struct GaplessSegment {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;  // whose blocks lie there, 0 where it is several streams'
    int32_t device;
    bool is_plain;  // one allocation of cudaMalloc, `address` as it came: can be shared by IPC
} GaplessSegment;

typedef struct GaplessBlock {
    uint64_t address;  // of its first byte
    uint64_t bytes;
    uint64_t requested_bytes;  // 0 where the program does not have it
    uint64_t stream;           // that asked for it
    int32_t device;
    int32_t other_streams;  // that use it as well, by use_on()
    bool is_allocated;      // the program has it
    bool is_active;         // it is allocated, or a stream still uses it
} GaplessBlock;

typedef struct GaplessVisitor {
    void* context;
    void (*segment)(void* context, const GaplessSegment* segment);
    void (*block)(void* context, const GaplessBlock* block);
} GaplessVisitor;

typedef struct GaplessServing {
    uint32_t version;  // GAPLESS_SERVING_VERSION
    uint32_t bytes;    // sizeof(GaplessServing)

    // A block of at least so many bytes (never 0), at a multiple of 512, or 0: PyTorch's allocator
    // serves the request. Also 0 where memory is short. Not asked while a stream captures or
    // somebody allocates to a pool on the device.
    uint64_t (*allocate)(int32_t device, uint64_t bytes, uint64_t stream);
    // What PyTorch's allocator gave for a request that allocate() had answered with 0. May be null.
    void (*passed_on)(int32_t device, uint64_t address, uint64_t bytes, uint64_t stream);
    // False where the address is not the core's; PyTorch's allocator then frees it. Comes also for
    // what was passed on, so that the core may learn when it ends.
    bool (*free)(uint64_t address);
    // Whether an address, within a block or not, is in a segment of the core's.
    bool (*owns)(uint64_t address);
    // Another stream uses a block: its bytes come back when that is done. False where it is none
    // of the core's.
    bool (*use_on)(uint64_t address, uint64_t stream);
    // Waits for the device and gives back memory in which nothing lives. Returns how many bytes.
    // For torch.cuda.empty_cache(), and before PyTorch's allocator is asked once more for what it
    // had no memory for. Never called while a stream captures.
    uint64_t (*give_back)(int32_t device);
    // `peer` may read and write this device's memory, now and what comes later.
    void (*open_to)(int32_t device, int32_t peer);

    // The block or segment that an address lies in; false, and nothing written, where it lies in
    // none of the core's.
    bool (*block_of)(uint64_t address, GaplessBlock* block);
    bool (*segment_of)(uint64_t address, GaplessSegment* segment);
    // Every segment in the order of addresses, and after each its blocks, free ones too, which
    // cover it without a gap. The visitor calls nothing of this table.
    void (*visit)(int32_t device, const GaplessVisitor* visitor);

    // The same address at each call; null for a device that the core does not serve (yet).
    const GaplessGauge* (*gauge)(int32_t device);
    // All zero for a device that the core does not serve.
    void (*statistics)(int32_t device, GaplessStatistics* statistics);
    // Peaks become what is current. Those of a report() stay as they are.
    void (*reset_peaks)(int32_t device);
} GaplessServing;

#ifdef __cplusplus
}
#endif
