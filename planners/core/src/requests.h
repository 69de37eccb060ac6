// Requests as the stages of spatio-temporal planning see them: bytes and a lifetime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "address_tree.h"
#include "sections.h"
#include "taken_lists.h"

namespace gapless {

// Columns of equal length. Bytes are above 0; lifetimes are half-open steps [start, end).
struct Requests {
    std::span<const std::int64_t> size;
    std::span<const std::int64_t> start;
    std::span<const std::int64_t> end;

    std::int32_t count() const { return static_cast<std::int32_t>(size.size()); }
};

// The sections of requests; of several tables, each goes on counting where the one before ended.
inline Sections sections_of(std::initializer_list<Requests> tables) {
    std::vector<Segment> segments;
    for (const Requests& requests : tables) {
        for (std::int32_t r = 0; r < requests.count(); ++r) {
            const auto row = static_cast<std::int64_t>(segments.size());
            segments.push_back({row, requests.start[r], requests.end[r]});
        }
    }
    return {static_cast<std::int32_t>(segments.size()), segments};
}

// Bytes that are taken during sections of time.
class TakenBytes {
  public:
    explicit TakenBytes(std::int32_t sections) : tree_(sections) {}

    void take(SectionRange range, Span span) { tree_.insert(range, span); }

    // The lowest address at or above `floor` with so many bytes free throughout a range.
    std::int64_t next_free(SectionRange range, std::int64_t bytes, std::int64_t floor) {
        lists_.clear();
        tree_.visit(range, [&](const MergedSpans& taken) {
            lists_.push_back({taken.begin(), taken.end(), 0, bytes});
        });
        return next_free_in_all(lists_, floor);
    }

  private:
    AddressTree tree_;
    std::vector<TakenList> lists_;
};

}  // namespace gapless
