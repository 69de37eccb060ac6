// The requests of a recorded run, in the form that a replay reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "online/online_segment.h"

namespace gapless::runtime {

// The kinds of events in a recorded run, with their numbers in Python.
enum class RecordedAction : std::uint8_t {
    allocate,
    free_requested,
    free_completed,
    segment_allocated,
    segment_freed,
    segment_mapped,
    segment_unmapped,
};

// The columns of a recorded run, with one entry for each row.
struct RecordedRows {
    std::vector<std::uint8_t> action;  // a RecordedAction, or any other number
    std::vector<Address> address;      // of the block
    std::vector<std::int64_t> bytes;   // requested bytes of an allocation
    std::vector<Stream> stream;
    std::vector<std::int64_t> visit;  // where the program was; none if that is not known
    std::vector<PoolId> pool;         // of an allocation or a freed segment; none if all are common
};

class RequestLog {
  public:
    enum class What : std::uint8_t {
        nothing,
        allocate,
        free,        // a free that completes at once
        free_later,  // a free that completes later, because another stream uses the block
        complete,
        give_back,
    };
    struct Row {
        What what = What::nothing;
        std::uint32_t block = 0;  // number of the block, in the order of the requests
    };
    struct Request {
        std::size_t bytes;
        Stream stream;
        Address address;  // as recorded
    };

    // Leaves out frees of blocks from before the first row. If no row completes a free, every free
    // completes at once. Consecutive freed segments of a pool become one row, because the recorded
    // allocator gave them back together. Throws std::invalid_argument, with the row, if a block is
    // allocated at the address of a live one, or with zero or too many bytes.
    explicit RequestLog(const RecordedRows& recorded);

    // One row for each recorded row.
    const std::vector<Row>& rows() const { return rows_; }
    // One request for each block, by its number.
    const std::vector<Request>& requests() const { return requests_; }
    // By row, or none.
    const std::vector<std::int64_t>& visits() const { return visits_; }
    const std::vector<PoolId>& pools() const { return pools_; }

  private:
    std::vector<Row> rows_;
    std::vector<Request> requests_;
    std::vector<std::int64_t> visits_;
    std::vector<PoolId> pools_;
};

}  // namespace gapless::runtime
