// Time cut into sections: the sets of tensors that are alive together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stop.h"

namespace gapless {

// Steps [begin, end) in which a tensor needs memory. A tensor with gaps has several segments. The
// layout equals a row of Python's table, so that the table is read in place.
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
    // Requires begin < end for every segment.
    explicit CutTime(std::span<const Segment> segments);

    std::int32_t count = 0;
    // The range of every segment, in the order in which the segments were given.
    std::vector<SectionRange> ranges;
};

// Throws std::out_of_range or std::invalid_argument unless the segments are sorted by tensor and
// the segments of one tensor follow each other without overlap.
void require_segments(std::span<const Segment> segments, std::int64_t tensors);

// The sections of each tensor.
class Sections {
  public:
    // Requires segments that satisfy require_segments. Throws std::invalid_argument if a tensor has
    // no segment.
    Sections(std::int32_t tensors, std::span<const Segment> segments);

    std::int32_t count() const { return count_; }
    std::span<const SectionRange> of(std::int32_t tensor) const {
        const std::int64_t begin = offsets_[tensor];
        return {ranges_.data() + begin, static_cast<std::size_t>(offsets_[tensor + 1] - begin)};
    }
    bool overlap(std::int32_t a, std::int32_t b) const;

    // Returns, for each tensor, the number of other tensors that are alive at some step together
    // with it.
    std::vector<std::int64_t> degrees(Stop& stop) const;

  private:
    std::int32_t count_ = 0;
    std::vector<std::int64_t> offsets_;
    std::vector<SectionRange> ranges_;
};

}  // namespace gapless
