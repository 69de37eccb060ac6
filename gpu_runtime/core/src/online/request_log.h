// The requests of a recorded run, ready to be made again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// What a row of a recorded run tells of, by the numbers that events have in Python.
enum class RecordedAction : std::uint8_t {
    allocate,
    free_requested,
    free_completed,
    segment_allocated,
    segment_freed,
    segment_mapped,
    segment_unmapped,
};

// The columns of a recorded run, one entry a row.
struct RecordedRows {
    std::vector<std::uint8_t> action;  // a RecordedAction, or what else there is
    std::vector<Address> address;      // of the block
    std::vector<std::int64_t> bytes;   // as requested, of what is allocated
    std::vector<Stream> stream;
};

class RequestLog {
  public:
    enum class What : std::uint8_t {
        nothing,
        allocate,
        free,        // which is complete at once
        free_later,  // another stream is at work there
        complete,
        give_back,
    };
    struct Row {
        What what = What::nothing;
        std::uint32_t block = 0;  // its number, in the order of the requests
    };
    struct Request {
        std::size_t bytes;
        Stream stream;
        Address address;  // as recorded
    };

    // Frees of blocks that were there before the first row are left out. Without a row that tells
    // of a free's end, none ends later than it was asked for. Segments that go, one behind the
    // other, were given back at once, by the program or because memory was short. Throws
    // std::invalid_argument, with the row, for a block where one is, and for no bytes or more than
    // there can be.
    explicit RequestLog(const RecordedRows& recorded);

    // One for each that was recorded.
    const std::vector<Row>& rows() const { return rows_; }
    // By the block's number.
    const std::vector<Request>& requests() const { return requests_; }

  private:
    std::vector<Row> rows_;
    std::vector<Request> requests_;
};

}  // namespace gapless::runtime
