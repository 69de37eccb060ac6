// The request matcher of STWeaver: whether a request is static, and where it may lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "online/stweaver_profile.h"

namespace gapless::runtime {

// Note [Request matcher]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A request says its bytes only. The profile knows the order of the requests of each
// module, so the module that runs and the requests that it made so far tell which one this is.
// Approach. A key is a visit and a size. The static requests of a key take the places of the
// profile in its order; begin_iteration() starts over. A place that its own request still holds
// belongs to memory that lasts, such as a weight, and is passed over. A request without a place may
// lie in the dynamic space of its key, or else in that of its visit.
// Limits. A key with fewer requests than profiled gives places to the wrong ones of them. The pool
// hands out only what is free, so this costs memory and no correctness.
class StweaverMatcher {
  public:
    // The planned place of a static request.
    struct Place {
        std::size_t offset;
        bool is_held = false;
    };
    // The place of a static request, or the intervals of a dynamic one; both are null for a request
    // that the profile lacks.
    struct Match {
        Place* place = nullptr;
        const PoolRange *first = nullptr, *last = nullptr;  // the list of a dynamic request
    };

    // The profile is valid.
    explicit StweaverMatcher(const StweaverProfile& profile);
    StweaverMatcher(const StweaverMatcher&) = delete;
    StweaverMatcher& operator=(const StweaverMatcher&) = delete;

    void begin_iteration() { ++iteration_; }
    // From now on requests are those of this visit, which the profile may lack.
    void enter(std::int64_t visit);
    Match match(std::size_t bytes);

  private:
    struct Key {
        std::int64_t visit;
        std::size_t bytes;
        // Of a static one its places, else its intervals.
        bool is_static;
        std::size_t begin, end;
        std::size_t next = 0;         // the place to look at next
        std::uint64_t iteration = 0;  // in which `next` was set
    };

    Key* find(std::size_t bytes);
    Match space_of(const Key* key) const;

    std::vector<Key> keys_;  // by visit and bytes
    // Keys of visit v are those from first_key_[v] to first_key_[v + 1].
    std::vector<std::size_t> first_key_;
    std::vector<Place> places_;  // by key
    std::vector<PoolRange> intervals_;
    std::uint64_t iteration_ = 1;
    std::size_t begin_ = 0, end_ = 0;  // keys of the visit
};

}  // namespace gapless::runtime
