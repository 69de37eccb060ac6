// The passes over the sections of all tensors left: where a canonical search spends its time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "exact/search_problem.h"

namespace gapless {

// Of each section: the bytes left in it, and the least end of what may be lowest there; kNoEnd
// where nothing may.
template <class Bytes>
struct SectionColumns {
    static constexpr Bytes kNoEnd = std::numeric_limits<Bytes>::max();
    const Bytes* remaining;
    Bytes* least_end;
};

// Of each tensor left: its size and from where on it may lie, and the most bytes left in one of its
// sections, which the first pass writes and the second one reads.
template <class Bytes>
struct TensorColumns {
    std::span<const std::int32_t> left;
    const Bytes* size;
    const Bytes* bound;
    Bytes* most_remaining;
};

// Note [Passes in vectors]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A node looks at all sections of all tensors left, some thousand numbers: with scalar
// instructions this takes most of the time of a search.
// Approach. Each pass is a loop over a range of sections whose ends are known before it starts, so
// that the compiler can use vectors. Where compiler and loader offer it, there is a second version
// for processors with AVX2, whose vectors are twice as wide and have a minimum of 32-bit integers,
// and the loader picks one. Both work on integers and return the same.
// Limits. A range of few sections gains little.

// Lowers each least end to what its tensors offer. A tensor may be lowest where the bytes left fit
// above its bound.
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                const SectionColumns<std::int32_t>& sections, std::int32_t capacity);
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                const SectionColumns<std::int64_t>& sections, std::int64_t capacity);

// Writes for each tensor left the highest of the least ends where it cannot be lowest, or 0.
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                  const SectionColumns<std::int32_t>& sections, std::int32_t capacity,
                  std::int32_t* above);
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                  const SectionColumns<std::int64_t>& sections, std::int64_t capacity,
                  std::int64_t* above);

}  // namespace gapless
