// Observes the requests that are not served as planned: keeps and counts the mismatches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "allocator/mismatch.h"
#include "allocator/planned_blocks.h"

namespace gapless::runtime {

using MismatchListener = std::function<void(const Mismatch&)>;

// See Note [Observers are adaptors].
template <class Observed>
class MismatchAdaptor : public Observed {
  public:
    using Observed::Observed;

    // Returns no mismatch that is only counted.
    Served allocate(Lock& lock, std::size_t bytes, Stream stream) {
        Served served = Observed::allocate(lock, bytes, stream);
        if (served.mismatch != nullptr && !is_kept(*served.mismatch)) served.mismatch = nullptr;
        return served;
    }

    // The first mismatches since the last reset, and the number of all of each MismatchKind.
    const std::vector<Mismatch>& mismatches() const { return mismatches_; }
    const std::vector<std::int64_t>& mismatch_counts() const { return counts_; }
    // To be called without the lock for each mismatch that is kept; may be null.
    std::shared_ptr<const MismatchListener> listener() const { return listener_; }
    // Exchanges the listener with the former one.
    void swap_listener(std::shared_ptr<const MismatchListener>& listener) {
        listener_.swap(listener);
    }
    void reset_peaks() {
        Observed::reset_peaks();
        mismatches_.clear();
        counts_.assign(kMismatchKinds, 0);
    }

  private:
    // Mismatches kept since reset_peaks(); later ones are only counted. A guess.
    static constexpr std::size_t kKept = 64;

    bool is_kept(Mismatch& mismatch) {
        mismatch.number = next_number_++;
        ++counts_[static_cast<std::size_t>(mismatch.kind)];
        if (mismatches_.size() >= kKept) return false;
        mismatches_.push_back(mismatch);
        return true;
    }

    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(kMismatchKinds);
    std::int64_t next_number_ = 0;
    std::shared_ptr<const MismatchListener> listener_;
};

}  // namespace gapless::runtime
