#include "homosize/fusion.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

class Fusion {
  public:
    Fusion(Requests host, std::span<const std::int64_t> host_address, Requests guests, bool within)
        : guests_(guests),
          within_(within),
          guest_begin_(host.count()),
          sections_(sections_of({host, guests})),
          occupied_(sections_.count),
          steps_(host_address.begin(), host_address.end()) {
        std::int64_t top = 0;
        for (std::int32_t h = 0; h < host.count(); ++h) {
            const Interval interval{host_address[h], host_address[h] + host.size[h]};
            occupied_.occupy(sections_.ranges[h], interval);
            top = std::max(top, interval.end);
        }
        steps_.push_back(top);
        std::sort(steps_.begin(), steps_.end());
    }

    std::vector<std::int64_t> run(Stop& stop) {
        std::vector<std::int64_t> address(static_cast<std::size_t>(guests_.count()), kLeftOver);
        for (std::int32_t g = 0; g < guests_.count(); ++g) to_ask_.insert(to_ask_.end(), g);
        std::int64_t addr = steps_.front();
        for (auto step = steps_.begin(); !to_ask_.empty() || !later_.empty();) {
            stop.poll();
            while (!later_.empty() && later_.top().first <= addr) {
                to_ask_.insert(later_.top().second);
                later_.pop();
            }
            const std::int32_t guest = earliest_that_fits(addr, stop);
            if (guest != kNone) {
                address[guest] = addr;
                addr += guests_.size[guest];
            } else {
                if (within_ && addr >= steps_.back()) break;
                // Every guest fits above the host's top, so the addresses never run out.
                step = std::upper_bound(step, steps_.end(), addr);
                addr = *step;
            }
        }
        return address;
    }

  private:
    static constexpr std::int32_t kNone = -1;
    using Waiting = std::pair<std::int64_t, std::int32_t>;  // the next free address, and a guest

    // Removes and returns the earliest guest that fits at `addr`, or kNone. A guest that starts
    // earlier but does not fit waits for a higher address.
    std::int32_t earliest_that_fits(std::int64_t addr, Stop& stop) {
        while (!to_ask_.empty()) {
            stop.poll();
            const std::int32_t guest = *to_ask_.begin();
            to_ask_.erase(to_ask_.begin());
            // `addr` only rises, so a guest that would cross the top now would cross it at every
            // later address.
            if (within_ && guests_.size[guest] > steps_.back() - addr) continue;
            const SectionRange lifetime = sections_.ranges[guest_begin_ + guest];
            const std::int64_t free = occupied_.next_free(lifetime, guests_.size[guest], addr);
            if (free == addr) return guest;
            later_.emplace(free, guest);
        }
        return kNone;
    }

    Requests guests_;
    bool within_;
    std::int32_t guest_begin_;
    CutTime sections_;
    OccupiedBytes occupied_;
    std::vector<std::int64_t> steps_;
    std::set<std::int32_t> to_ask_;
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> later_;
};

}  // namespace

std::vector<std::int64_t> fuse(Requests host, std::span<const std::int64_t> host_address,
                               Requests guests, bool within, Stop& stop) {
    if (host.count() == 0) throw std::invalid_argument("field size: a host needs a request");
    require_length("address", host_address.size(), "request of the host", host.size.size());
    require_at_least("address", host_address, 0);
    require_rising(guests.start);
    std::int64_t top = 0;
    for (std::int32_t h = 0; h < host.count(); ++h) {
        if (host_address[h] > kMostBytes - host.size[h]) {
            throw std::overflow_error("field address, entry " + std::to_string(h) +
                                      ": a request ends at most at " + std::to_string(kMostBytes) +
                                      ", found " + std::to_string(host_address[h]) + " and " +
                                      std::to_string(host.size[h]) + " bytes");
        }
        top = std::max(top, host_address[h] + host.size[h]);
    }
    // No guest ends higher than the host's top plus the bytes of all guests.
    require_total("guest_size", guests.size, top);
    return Fusion(host, host_address, guests, within).run(stop);
}

}  // namespace gapless
