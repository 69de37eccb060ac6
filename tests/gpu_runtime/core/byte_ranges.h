// Something that is known of every byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include "physical_memory.h"

namespace gapless::tests {

// Of ranges of bytes, something that can be compared.
template <class T>
class ByteRanges {
  public:
    // Calls act(value) for every part of a range, cut at its ends. What was never set is not there.
    template <class Act>
    void each(PhysicalMemory::Stretch range, Act act) {
        cut(range.begin);
        cut(range.end);
        for (auto part = parts_.lower_bound(range.begin);
             part != parts_.end() && part->first < range.end; ++part) {
            act(part->second.value);
        }
    }
    // The same, where what was not set is T().
    template <class Act>
    void change(PhysicalMemory::Stretch range, Act act) {
        cut(range.begin);
        cut(range.end);
        std::uint64_t at = range.begin;
        for (auto part = parts_.lower_bound(at); at < range.end; ++part) {
            const std::uint64_t next =
                part == parts_.end() ? range.end : std::min(part->first, range.end);
            if (at < next) part = parts_.insert(part, {at, {next, T()}});
            act(part->second.value);
            at = part->second.end;
        }
        join(range);
    }

  private:
    struct Part {
        std::uint64_t end;
        T value;
    };
    void cut(std::uint64_t at) {
        auto part = parts_.lower_bound(at);
        if (part == parts_.begin()) return;
        --part;
        if (part->second.end <= at) return;
        parts_.insert({at, part->second});
        part->second.end = at;
    }
    // Parts that are equal become one.
    void join(PhysicalMemory::Stretch range) {
        auto part = parts_.lower_bound(range.begin);
        if (part != parts_.begin()) --part;
        while (part != parts_.end() && part->first < range.end) {
            const auto next = std::next(part);
            if (next != parts_.end() && next->first == part->second.end &&
                next->second.value == part->second.value) {
                part->second.end = next->second.end;
                parts_.erase(next);
            } else {
                part = next;
            }
        }
    }
    std::map<std::uint64_t, Part> parts_;
};

}  // namespace gapless::tests
