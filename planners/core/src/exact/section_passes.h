// The passes over the sections of all unplaced tensors, where a canonical search spends its time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "exact/search_problem.h"

namespace gapless {

// For each section: its unplaced bytes, and the least end of the tensors that may be lowest there;
// kNoEnd if none may be.
template <class Bytes>
struct SectionColumns {
    static constexpr Bytes kNoEnd = std::numeric_limits<Bytes>::max();
    const Bytes* remaining;
    Bytes* least_end;
};

// For each unplaced tensor: its size, its lower bound, and the most unplaced bytes in one of its
// sections. The first pass writes `most_remaining`; the second reads it.
template <class Bytes>
struct TensorColumns {
    std::span<const std::int32_t> left;
    const Bytes* size;
    const Bytes* bound;
    Bytes* most_remaining;
};

// Note [Passes in vectors]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A node examines all sections of all unplaced tensors, some thousand numbers. With
// scalar instructions these passes take most of a search's time.
// Approach. Each pass is a loop over a range of sections whose ends are known before the loop, so
// that the compiler can vectorise it. If compiler and loader support it, a second version exists
// for processors with AVX2, whose vectors are twice as wide and have a minimum of 32-bit integers.
// The loader selects one. Both versions compute on integers and return the same.
// Limits. A range of few sections gains little.

// Lowers each section's least end to the ends of its tensors. A tensor may be lowest in a section
// if the unplaced bytes fit above its bound.
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                const SectionColumns<std::int32_t>& sections, std::int32_t capacity);
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                const SectionColumns<std::int64_t>& sections, std::int64_t capacity);

// Writes, for each unplaced tensor, the highest least end of the sections in which it cannot be
// lowest, or 0.
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                  const SectionColumns<std::int32_t>& sections, std::int32_t capacity,
                  std::int32_t* above);
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                  const SectionColumns<std::int64_t>& sections, std::int64_t capacity,
                  std::int64_t* above);

}  // namespace gapless
