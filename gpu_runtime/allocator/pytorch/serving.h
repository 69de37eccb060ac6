// The interface between the decorator of PyTorch's allocator and the core: a table of C functions.
//
// The decorator is compiled against the installed PyTorch and the core is not, so no C++ types pass
// between them. One table serves all devices and lives as long as the process. Every function may
// be called from any thread, with or without the interpreter's lock, until the process ends. None
// throws, none runs Python, and none calls PyTorch. Planned memory holds no lock while it waits for
// the device; an online allocator does, like PyTorch's own allocator.
//
// Devices are CUDA's numbers, in [0, GAPLESS_DEVICES). Streams are cudaStream_t as numbers, and 0
// is the default stream.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GAPLESS_SERVING_VERSION 2
#define GAPLESS_DEVICES 64

#ifdef __cplusplus
extern "C" {
#endif

// The current bytes of a device. The core writes each as a single word under its own lock, before
// the call that changes it returns. Any thread may read them at any time without a lock.
typedef struct GaplessGauge {
    int64_t allocated_bytes;  // rounded up to blocks
    int64_t reserved_bytes;   // physical memory
} GaplessGauge;

// Totals never fall; the freed part is `total - current`.
typedef struct GaplessStat {
    int64_t current;
    int64_t peak;   // since reset_peaks()
    int64_t total;  // the sum of all additions to `current`
} GaplessStat;

// Statistics of small blocks, for requests of at most 1 MiB as in PyTorch, or of large ones.
// Segments and reserved bytes count as large.
typedef struct GaplessStatsOfSize {
    GaplessStat allocation;       // blocks
    GaplessStat active;           // blocks, with freed ones that a stream still uses
    GaplessStat segment;          // ranges of addresses with memory behind them
    GaplessStat requested_bytes;  // bytes as requested
    GaplessStat allocated_bytes;  // rounded up to blocks
    GaplessStat active_bytes;
    GaplessStat reserved_bytes;  // physical memory
} GaplessStatsOfSize;

typedef struct GaplessStatistics {
    GaplessStatsOfSize small, large;
    // Peaks of both sizes together, because peaks cannot be added.
    int64_t allocation_peak, active_peak;
    int64_t requested_bytes_peak, allocated_bytes_peak, active_bytes_peak;
    int64_t device_allocations, device_frees;  // calls to the driver, ever
} GaplessStatistics;

// A range of addresses with memory behind every byte.
typedef struct GaplessSegment {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;  // the stream of its blocks; 0 for several streams
    int32_t device;
    bool is_plain;  // exactly one allocation of cudaMalloc, which can be shared by IPC
} GaplessSegment;

typedef struct GaplessBlock {
    uint64_t address;  // of its first byte
    uint64_t bytes;
    uint64_t requested_bytes;  // 0 unless the block is allocated
    uint64_t stream;           // the stream of its request
    int32_t device;
    int32_t other_streams;  // number of other streams that use it, by use_on()
    bool is_allocated;      // the program has not freed it
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

    // Returns a block of at least `bytes` (never 0), at a multiple of 512. Returns 0 if PyTorch's
    // allocator should serve the request, or if memory is short. Never called while a stream
    // captures or a pool gets the allocations of the device.
    uint64_t (*allocate)(int32_t device, uint64_t bytes, uint64_t stream);
    // Captures into a pool of PyTorch's, which is no 0. begin_pool() returns false if PyTorch's
    // allocator serves the pool, and is called whenever requests may begin to come to it.
    bool (*begin_pool)(int32_t device, uint64_t pool);
    // As allocate(), for a pool for which begin_pool() returned true. May be called while a stream
    // captures.
    uint64_t (*allocate_in_pool)(int32_t device, uint64_t pool, uint64_t bytes, uint64_t stream);
    // A capture into the pool has ended, and no other is running. Waits for the device. Returns
    // false if memory is short or the device refuses; then the graph must not be replayed.
    bool (*end_capture)(int32_t device, uint64_t pool);
    // No graph uses the pool any more.
    void (*end_pool)(int32_t device, uint64_t pool);
    // Tells the block of PyTorch's allocator for a request to which allocate() returned 0. May be
    // null.
    void (*passed_on)(int32_t device, uint64_t address, uint64_t bytes, uint64_t stream);
    // Frees a block. Returns false if it is not the core's; PyTorch's allocator then frees it. Is
    // also called for blocks that were passed on, so that the core learns of their ends.
    bool (*free)(uint64_t address);
    // Returns true if an address is in a segment of the core, within a block or not.
    bool (*owns)(uint64_t address);
    // Tells that another stream uses a block, whose bytes serve again only when that stream is
    // done. Returns false if the block is not the core's.
    bool (*use_on)(uint64_t address, uint64_t stream);
    // Waits for the device, gives back memory without live blocks, and returns its bytes. Is called
    // for torch.cuda.empty_cache(), and before PyTorch's allocator retries a request for which it
    // had no memory. Never called while a stream captures.
    uint64_t (*give_back)(int32_t device);
    // Says how many bytes the core may reserve from now on; it keeps what it has.
    void (*limit)(int32_t device, uint64_t bytes);
    // Lets `peer` read and write all present and later memory of this device.
    void (*open_to)(int32_t device, int32_t peer);

    // Writes the block or segment that contains an address. Returns false and writes nothing if it
    // is in none of the core's.
    bool (*block_of)(uint64_t address, GaplessBlock* block);
    bool (*segment_of)(uint64_t address, GaplessSegment* segment);
    // Visits every segment in the order of addresses, and after each segment its blocks, which
    // cover it without gaps and include free ones. The visitor must not call this table.
    void (*visit)(int32_t device, const GaplessVisitor* visitor);

    // Returns the same address at each call; null for a device that the core does not serve (yet).
    const GaplessGauge* (*gauge)(int32_t device);
    // Writes only zeros for a device that the core does not serve.
    void (*statistics)(int32_t device, GaplessStatistics* statistics);
    // Sets peaks to the current values. The peaks of report() stay.
    void (*reset_peaks)(int32_t device);
} GaplessServing;

#ifdef __cplusplus
}
#endif
