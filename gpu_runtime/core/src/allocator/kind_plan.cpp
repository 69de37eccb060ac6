#include "allocator/kind_plan.h"

#include <set>
#include <stdexcept>
#include <string>

#include "allocator/block.h"

namespace gapless::runtime {

namespace {

// Limits of a book. Requests are counted in 32 bits. Kinds and streams are searched linearly; their
// limits are guesses.
constexpr std::size_t kMostRequests = std::size_t{1} << 27;
constexpr std::size_t kMostKinds = 64;
constexpr std::size_t kMostStreams = 256;

void require_few(const std::vector<KindPlan>& kinds) {
    std::size_t requests = 0;
    std::set<Stream> streams;
    for (const KindPlan& kind : kinds) {
        requests += kind.slot_count();
        for (const Stream stream : kind.stream) {
            if (streams.size() <= kMostStreams) streams.insert(stream);
        }
    }
    const auto require = [](const char* what, std::size_t found, std::size_t most) {
        if (found <= most) return;
        throw std::length_error("book of plans: at most " + std::to_string(most) + " " + what +
                                " are taken, found " + std::to_string(found));
    };
    require("kinds of step", kinds.size(), kMostKinds);
    require("requests", requests, kMostRequests);
    require("streams", streams.size(), kMostStreams);
}

std::string label_rule(std::int32_t found) {
    return "a label is at least -1, found " + std::to_string(found);
}

// The rules of one kind; a message names its number.
class KindRules {
  public:
    KindRules(const KindPlan& kind, std::size_t number, std::size_t arena_bytes)
        : kind_(kind), number_(number), arena_bytes_(arena_bytes) {}

    void require() const {
        if (kind_.label < kBetweenSteps) refuse(label_rule(kind_.label));
        require_column("least", kind_.least.size());
        require_column("most", kind_.most.size());
        require_column("offset", kind_.offset.size());
        require_column("spare", kind_.spare.size());
        require_column("handed_over", kind_.handed_over.size());
        for (std::size_t slot = 0; slot < kind_.slot_count(); ++slot) require_place(slot);
    }

  private:
    [[noreturn]] void refuse(const std::string& rule) const {
        throw std::invalid_argument("book of plans: kind " + std::to_string(number_) + ": " + rule);
    }

    void require_column(const char* name, std::size_t found) const {
        if (found == kind_.slot_count()) return;
        refuse(std::string("every request has an entry in ") + name + ", found " +
               std::to_string(found) + " for " + std::to_string(kind_.slot_count()));
    }

    void require_place(std::size_t slot) const {
        const std::int64_t least = kind_.least[slot], most = kind_.most[slot];
        if (least <= 0 || most < least) {
            refuse("a request has at least one byte, and at most its most" + found_at(slot));
        }
        if (static_cast<std::size_t>(most) > kMostBytes) {
            throw OutOfDeviceMemory("no device has as much");
        }
        require_offset(kind_.offset[slot], slot);
        require_offset(kind_.spare[slot], slot);
    }

    void require_offset(std::int64_t offset, std::size_t slot) const {
        if (offset == kNoPlace) return;
        if (offset < 0 || offset % static_cast<std::int64_t>(kBlockAlignment) != 0) {
            refuse("offsets are multiples of 512" + found_at(slot) + " at " +
                   std::to_string(offset));
        }
        const auto begin = static_cast<std::size_t>(offset);
        const std::size_t needed =
            round_up(static_cast<std::size_t>(kind_.most[slot]), kBlockAlignment);
        if (begin > arena_bytes_ || needed > arena_bytes_ - begin) {
            refuse("places lie within the arena of " + std::to_string(arena_bytes_) + " bytes" +
                   found_at(slot) + " at " + std::to_string(offset));
        }
    }

    std::string found_at(std::size_t slot) const {
        return ", found " + std::to_string(kind_.least[slot]) + " to " +
               std::to_string(kind_.most[slot]) + ", request " + std::to_string(slot);
    }

    const KindPlan& kind_;
    const std::size_t number_, arena_bytes_;
};

}  // namespace

void require_label(std::int32_t label) {
    if (label < kBetweenSteps) throw std::invalid_argument("step: " + label_rule(label));
}

void require_kinds(const std::vector<KindPlan>& kinds, std::size_t arena_bytes) {
    if (arena_bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    require_few(kinds);
    for (std::size_t number = 0; number < kinds.size(); ++number) {
        KindRules(kinds[number], number, arena_bytes).require();
    }
}

}  // namespace gapless::runtime
