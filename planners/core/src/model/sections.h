// Time cut into sections: the sets of tensors that are alive together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stop.h"

namespace gapless {

// Steps [begin, end) in which a tensor needs memory; a tensor with gaps has several. Laid out as a
// row of the table that Python keeps, so that a table is read where it lies.
struct Segment {
    std::int64_t tensor;
    std::int64_t begin;
    std::int64_t end;
};

// Sections [first, last) that a segment covers.
struct SectionRange {
    std::int32_t first;
    std::int32_t last;
};

// Note [Sections]
// ~~~~~~~~~~~~~~~
// Sort the starts and ends of all segments by step, ends first. A section is the live set after a
// maximal run of starts. Nothing ends within such a run, so every segment is alive in the section
// of its own start and in all until its end. Two segments that overlap are both alive at the later
// of their starts, hence after its run: they share that section. Two that share a section are alive
// together. So overlap in time is overlap of section ranges, the live sums of the sections include
// the largest live sum of all, and there are at most as many sections as starts.
struct CutTime {
    // Segments begin before they end.
    explicit CutTime(std::span<const Segment> segments);

    std::int32_t count = 0;
    // The range of every segment, in the order they were given.
    std::vector<SectionRange> ranges;
};

// Throws std::out_of_range and std::invalid_argument unless segments are sorted by tensor and, of
// one tensor, come one after the other.
void require_segments(std::span<const Segment> segments, std::int64_t tensors);

// The sections of each tensor.
class Sections {
  public:
    // Segments as require_segments has them, and one of every tensor at least: throws
    // std::invalid_argument where one has none.
    Sections(std::int32_t tensors, std::span<const Segment> segments);

    std::int32_t count() const { return count_; }
    std::span<const SectionRange> of(std::int32_t tensor) const {
        const std::int64_t begin = offsets_[tensor];
        return {ranges_.data() + begin, static_cast<std::size_t>(offsets_[tensor + 1] - begin)};
    }
    bool overlap(std::int32_t a, std::int32_t b) const;

    // Number of other tensors that are alive at some step together with each tensor.
    std::vector<std::int64_t> degrees(Stop& stop) const;

  private:
    std::int32_t count_ = 0;
    std::vector<std::int64_t> offsets_;
    std::vector<SectionRange> ranges_;
};

}  // namespace gapless
