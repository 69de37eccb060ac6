// Tries a book of plans on the last steps of a program, over a ledger instead of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/book.h"
#include "allocator/log_entry.h"

namespace gapless::runtime {

// Note [A plan that never costs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A book helps if the next steps are like the steps that it was made of. In an irregular
// program they are not: requests find no place, and need memory beside the arena. The heap alone is
// then better in bytes and in time. No share of requests or bytes tells when that is so.
// Approach. A trial runs the allocator itself. The log has all requests and frees of the last
// steps. A trial makes them again, to a planned allocator over a ledger: once with the book, and
// once with the heap alone. Both begin with the blocks in use before these steps, and have reserved
// the live peak of the program. At most four steps are the warm-up. Then the book is adopted, and
// the other steps run twice. Device calls and host waits count in the second run, because memory
// moves into the arena soon after an adoption, and only once. Reserved bytes count throughout.
// Limits. The log lacks uses on other streams; in a trial, every stream is done at once. All blocks
// that live before these steps and after them are one block. A trial knows only past steps, so a
// book may fit them by chance; a later trial then finds that it is costly.

// A block in the arena that belongs to no plan, and stays where it is.
struct Guest {
    std::int64_t offset, bytes, request;
};

struct TrialTerms {
    std::size_t page_bytes;
    bool is_plain;
    std::int64_t live_bytes;  // in use after the last step, in whole blocks
    std::int64_t live_peak;   // the largest live bytes so far
};

struct TrialOutcome {
    std::int64_t reserved_peak = 0;
    std::int64_t memory_calls = 0, host_waits = 0;
    std::int64_t served = 0;    // requests that got their planned places
    std::int64_t unserved = 0;  // requests that the plan did not foresee, or that did not come
};

// Each log ends with the end of a step, and none is missing between two of them. A null book
// stands for the heap alone.
TrialOutcome try_book(const std::vector<std::span<const LogEntry>>& logs, const TrialTerms& terms,
                      const Book* book, const std::vector<Guest>& guests);

}  // namespace gapless::runtime
