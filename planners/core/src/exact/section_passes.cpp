#include "exact/section_passes.h"

#include <algorithm>

// GCC compiles a second version if the loader is glibc's. Sanitizers are excluded, because the
// loader may select a version before they have started.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define GAPLESS_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define GAPLESS_WIDE_VECTORS
#endif

namespace gapless {

namespace {

template <class Bytes>
[[gnu::always_inline]] inline void offer(const SearchProblem& problem,
                                         const TensorColumns<Bytes>& tensors,
                                         const SectionColumns<Bytes>& sections, Bytes capacity) {
    const std::int64_t* const begins = problem.range_offsets.data();
    const SectionRange* const ranges = problem.ranges.data();
    const Bytes* const __restrict remaining = sections.remaining;
    Bytes* const __restrict least_end = sections.least_end;
    for (const std::int32_t t : tensors.left) {
        const Bytes room = capacity - tensors.bound[t], end = tensors.bound[t] + tensors.size[t];
        Bytes most = 0;
        for (std::int64_t r = begins[t]; r < begins[t + 1]; ++r) {
            const SectionRange range = ranges[r];
            for (std::int32_t s = range.first; s < range.last; ++s) {
                const Bytes offered = remaining[s] <= room ? end : SectionColumns<Bytes>::kNoEnd;
                least_end[s] = std::min(least_end[s], offered);
                most = std::max(most, remaining[s]);
            }
        }
        tensors.most_remaining[t] = most;
    }
}

template <class Bytes>
[[gnu::always_inline]] inline void highest(const SearchProblem& problem,
                                           const TensorColumns<Bytes>& tensors,
                                           const SectionColumns<Bytes>& sections, Bytes capacity,
                                           Bytes* above) {
    const std::int64_t* const begins = problem.range_offsets.data();
    const SectionRange* const ranges = problem.ranges.data();
    const Bytes* const remaining = sections.remaining;
    const Bytes* const least_end = sections.least_end;
    for (const std::int32_t t : tensors.left) {
        const Bytes room = capacity - tensors.bound[t];
        Bytes most = 0;
        if (tensors.most_remaining[t] > room) {
            for (std::int64_t r = begins[t]; r < begins[t + 1]; ++r) {
                const SectionRange range = ranges[r];
                for (std::int32_t s = range.first; s < range.last; ++s) {
                    most = std::max<Bytes>(most, remaining[s] > room ? least_end[s] : 0);
                }
            }
        }
        above[t] = most;
    }
}

}  // namespace

GAPLESS_WIDE_VECTORS
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                const SectionColumns<std::int32_t>& sections, std::int32_t capacity) {
    offer(problem, tensors, sections, capacity);
}

GAPLESS_WIDE_VECTORS
void offer_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                const SectionColumns<std::int64_t>& sections, std::int64_t capacity) {
    offer(problem, tensors, sections, capacity);
}

GAPLESS_WIDE_VECTORS
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int32_t>& tensors,
                  const SectionColumns<std::int32_t>& sections, std::int32_t capacity,
                  std::int32_t* above) {
    highest(problem, tensors, sections, capacity, above);
}

GAPLESS_WIDE_VECTORS
void highest_ends(const SearchProblem& problem, const TensorColumns<std::int64_t>& tensors,
                  const SectionColumns<std::int64_t>& sections, std::int64_t capacity,
                  std::int64_t* above) {
    highest(problem, tensors, sections, capacity, above);
}

}  // namespace gapless
