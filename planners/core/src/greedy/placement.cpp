#include "greedy/placement.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "greedy/address_tree.h"
#include "greedy/fit.h"
#include "greedy/free_ranges.h"
#include "greedy/free_space.h"
#include "greedy/unsafe_rows.h"
#include "model/require.h"

namespace gapless {

namespace {

// Returns true if the time limit has passed. Other exceptions of `stop`, such as interrupts,
// propagate.
bool is_over(Stop& stop) {
    try {
        stop.poll();
    } catch (const TimeLimitReached&) {
        return true;
    }
    return false;
}

// ---- Lifetimes: the tree of sections --------------------------------------------------------

// Walks the occupied intervals of all members of a block in parallel. The scratch memory is reused
// by the next search.
class SectionSearch {
  public:
    SectionSearch(const Instance& instance, const AddressTree& tree, std::int32_t block,
                  std::vector<FreeSpaceCursor>& scratch)
        : cursors_(scratch) {
        cursors_.clear();
        instance.each_member(
            block, [&](std::size_t, std::int32_t tensor, std::int64_t bytes, std::int64_t before) {
                for (const SectionRange range : instance.sections->of(tensor)) {
                    tree.visit(range, [&](const DisjointIntervals& occupied) {
                        cursors_.push_back({occupied.begin(), occupied.end(), before, bytes});
                    });
                }
            });
    }

    // Returns the lowest free start at or above `start`.
    std::int64_t next_free(std::int64_t start) { return next_free_in_all(cursors_, start); }

    // Returns one past the last start of the free range that contains `start`, a result of
    // next_free(). Intervals that begin at or above `address` are ignored.
    std::int64_t range_end(std::int64_t address = kNoLimit) const {
        std::int64_t end = kNoLimit;
        for (const FreeSpaceCursor& cursor : cursors_) {
            if (cursor.next == cursor.end || cursor.next->begin >= address) continue;
            end = std::min(end, cursor.next->begin - cursor.before - cursor.bytes + 1);
        }
        return end;
    }

  private:
    std::vector<FreeSpaceCursor>& cursors_;
};

class SectionSpace {
  public:
    explicit SectionSpace(const Instance& instance)
        : instance_(instance), tree_(instance.sections->count()) {}

    void occupy(std::int32_t block, std::int64_t head) {
        top_ = std::max(top_, head + instance_.blocks.size[block]);
        instance_.each_member(
            block, [&](std::size_t, std::int32_t tensor, std::int64_t bytes, std::int64_t before) {
                for (const SectionRange range : instance_.sections->of(tensor)) {
                    tree_.insert(range, {head + before, head + before + bytes});
                }
            });
    }

    std::int64_t fit(std::int32_t block, PlacementRules rules) {
        FitChoice choice(instance_, block, rules, top_);
        SectionSearch search = this->search(block);
        for (std::int64_t start = 0; start != kNoLimit;) {
            start = search.next_free(start);
            const std::int64_t end = search.range_end();
            start = choice.offer(start, end) ? kNoLimit : end;
        }
        return choice.chosen();
    }

    SectionSearch search(std::int32_t block) { return {instance_, tree_, block, scratch_}; }

  private:
    const Instance& instance_;
    AddressTree tree_;
    std::int64_t top_ = 0;
    std::vector<FreeSpaceCursor> scratch_;
};

// ---- Rows of unsafe pairs -------------------------------------------------------------------

// Note [Few unsafe pairs]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A walk over the placed tensors examines all of them, and in a long graph most are safe with a
// given tensor. If a row has few ones, its tensors are looked up one by one and sorted instead. The
// forbidden starts are the same, so the plan is the same.
template <class Rows>
class PairSpace {
  public:
    explicit PairSpace(const Instance& instance)
        : instance_(instance), rows_(instance), at_(rows_.words() * kWordBits) {}

    void occupy(std::int32_t block, std::int64_t head) {
        top_ = std::max(top_, head + instance_.blocks.size[block]);
        occupy_in(placed_, instance_, rows_, block, head);
        instance_.each_member(
            block, [&](std::size_t, std::int32_t tensor, std::int64_t bytes, std::int64_t before) {
                at_[rows_.number(tensor)] = {head + before, head + before + bytes};
            });
    }
    std::int64_t fit(std::int32_t block, PlacementRules rules) {
        FitChoice choice(instance_, block, rules, top_);
        if (ones(block) * kStepsAOne < placed_.size()) {
            collect(block);
            FreeRanges ranges(choice, 0, kNoLimit);
            offer_sorted(scratch_, ranges);
        } else {
            offer_all(instance_, placed_, rows_, block, 0, kNoLimit, scratch_, choice);
        }
        return choice.chosen();
    }

  private:
    // Steps of a walk that cost as much as looking up and sorting one unsafe tensor. A guess.
    static constexpr std::size_t kStepsAOne = 16;

    std::size_t ones(std::int32_t block) {
        std::size_t count = 0;
        for (std::size_t m = 0; m < instance_.blocks.members_of(block).size(); ++m) {
            const std::uint64_t* row = rows_.of(block, m);
            for (std::size_t w = 0; w < rows_.words(); ++w) count += std::popcount(row[w]);
        }
        return count;
    }

    void collect(std::int32_t block) {
        scratch_.clear();
        instance_.each_member(
            block, [&](std::size_t m, std::int32_t, std::int64_t bytes, std::int64_t before) {
                for_each_one({rows_.of(block, m), rows_.words()}, [&](std::size_t number) {
                    const auto [begin, end] = at_[number];
                    if (begin < end && end > before) {
                        scratch_.push_back(
                            {std::max<std::int64_t>(0, begin - bytes + 1 - before), end - before});
                    }
                });
            });
    }

    const Instance& instance_;
    Rows rows_;
    ChunkedList placed_;
    // The interval of each placed tensor, by number; empty if the tensor is unplaced or has size 0.
    std::vector<Interval> at_;
    std::int64_t top_ = 0;
    std::vector<Interval> scratch_;
};

// ---- Algorithm 6 ---------------------------------------------------------------------------

template <class Space>
Placement single_object(const Instance& instance, std::span<const std::int32_t> order,
                        PlacementRules rules, Stop& stop) {
    const Blocks& blocks = instance.blocks;
    Space space(instance);
    Placement placement{std::vector<std::int64_t>(instance.size.size(), 0)};
    for (const std::int32_t block : order) {
        if (blocks.pinned[block] != kNotPinned) space.occupy(block, blocks.pinned[block]);
    }
    for (const std::int32_t block : order) {
        if (is_over(stop)) {
            placement.out_of_time = true;
            return placement;
        }
        const bool pinned = blocks.pinned[block] != kNotPinned;
        const std::int64_t head = pinned ? blocks.pinned[block] : space.fit(block, rules);
        if (head + blocks.size[block] >= rules.limit) return placement;
        if (!pinned) space.occupy(block, head);
        blocks.set_offsets(block, head, placement.offsets);
        ++placement.placed;
    }
    return placement;
}

// ---- Algorithm 7 ---------------------------------------------------------------------------

// One past the last start in an object that leaves room for the whole block.
std::int64_t start_limit(const Interval& object, std::int64_t bytes) {
    return object.end - bytes + 1;
}

// Objects over lifetimes. One tree holds all addresses. The head of an object covers the whole
// object, so an object whose head is unsafe with the block is one interval, and the search skips
// it.
class SectionObjects {
  public:
    explicit SectionObjects(const Instance& instance) : instance_(instance), space_(instance) {}

    std::int64_t place(std::int32_t block, PlacementRules rules) {
        FitChoice choice(instance_, block, rules);
        SectionSearch search = space_.search(block);
        std::int64_t start = 0;
        for (auto object = objects_.begin(); object != objects_.end() && !choice.found();) {
            const std::int64_t limit = start_limit(*object, instance_.blocks.size[block]);
            start = std::max(start, object->begin);
            while (start < limit) {
                start = search.next_free(start);
                if (start >= limit) break;
                // Ignore intervals of later objects. Otherwise a start in one of them could be
                // skipped if this object turns out to have no room.
                const std::int64_t end = search.range_end(object->end);
                start = choice.offer(start, end, limit) ? kNoLimit : std::min(end, limit);
            }
            // The next object that reaches beyond `start`. The search never goes back.
            object = std::partition_point(object + 1, objects_.end(),
                                          [&](const Interval& o) { return o.end < start; });
        }
        const std::int64_t head = choice.found() ? choice.chosen() : open_object(block);
        space_.occupy(block, head);
        return head;
    }

  private:
    std::int64_t open_object(std::int32_t block) {
        const Blocks& blocks = instance_.blocks;
        const std::int64_t end = objects_.empty() ? 0 : objects_.back().end;
        const std::int64_t head = blocks.align(block, end);
        objects_.push_back({head, head + blocks.size[block]});
        return head;
    }

    const Instance& instance_;
    SectionSpace space_;
    std::vector<Interval> objects_;
};

// Objects over rows of unsafe pairs. Each keeps its own tensors, and is skipped if its head is
// unsafe with the block.
template <class Rows>
class PairObjects {
  public:
    explicit PairObjects(const Instance& instance) : instance_(instance), rows_(instance) {}

    std::int64_t place(std::int32_t block, PlacementRules rules) {
        const Blocks& blocks = instance_.blocks;
        // A block of size 0 takes no room: it excludes no other block and no other block excludes
        // it.
        const bool single = blocks.members_of(block).size() == 1 && blocks.size[block] > 0;
        for (Object& object : objects_) {
            if (single && object.single_head >= 0 &&
                is_in(rows_.of(block, 0), object.single_head)) {
                continue;
            }
            const std::int64_t limit = start_limit(object.range, blocks.size[block]);
            if (limit <= object.range.begin) continue;
            FitChoice choice(instance_, block, rules);
            offer_all(instance_, object.placed, rows_, block, object.range.begin, limit, scratch_,
                      choice);
            if (!choice.found()) continue;
            occupy_in(object.placed, instance_, rows_, block, choice.chosen());
            return choice.chosen();
        }
        const std::int64_t end = objects_.empty() ? 0 : objects_.back().range.end;
        const std::int64_t head = blocks.align(block, end);
        const std::int32_t number = single ? rows_.number(blocks.members_of(block)[0]) : -1;
        objects_.push_back({{head, head + blocks.size[block]}, number, {}});
        occupy_in(objects_.back().placed, instance_, rows_, block, head);
        return head;
    }

  private:
    struct Object {
        Interval range;
        std::int32_t single_head;
        ChunkedList placed;
    };
    const Instance& instance_;
    Rows rows_;
    std::vector<Object> objects_;
    std::vector<Interval> scratch_;
};

template <class Objects>
Placement many_objects(const Instance& instance, std::span<const std::int32_t> order,
                       PlacementRules rules, Stop& stop) {
    Objects objects(instance);
    Placement placement{std::vector<std::int64_t>(instance.size.size(), 0)};
    for (const std::int32_t block : order) {
        if (is_over(stop)) {
            placement.out_of_time = true;
            return placement;
        }
        const std::int64_t head = objects.place(block, rules);
        if (head + instance.blocks.size[block] >= rules.limit) return placement;
        instance.blocks.set_offsets(block, head, placement.offsets);
        ++placement.placed;
    }
    return placement;
}

}  // namespace

void require_order(const Instance& instance, std::span<const std::int32_t> order) {
    require_length("order", order.size(), "block", instance.blocks.size.size());
    require_partial_order(instance, order);
}

void require_partial_order(const Instance& instance, std::span<const std::int32_t> order) {
    require_indices("order", order, "blocks", instance.blocks.count());
    std::vector<bool> seen(instance.blocks.count(), false);
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (seen[order[i]]) refuse("order", i, "every block comes once", order[i]);
        seen[order[i]] = true;
    }
}

Placement place_single_object(const Instance& instance, std::span<const std::int32_t> order,
                              PlacementRules rules, Stop& stop) {
    require_order(instance, order);
    if (instance.sections) return single_object<SectionSpace>(instance, order, rules, stop);
    return instance.unsafe_rows ? single_object<PairSpace<KeptRows>>(instance, order, rules, stop)
                                : single_object<PairSpace<MadeRows>>(instance, order, rules, stop);
}

Placement place_many_objects(const Instance& instance, std::span<const std::int32_t> order,
                             PlacementRules rules, Stop& stop) {
    require_order(instance, order);
    for (const std::int64_t pin : instance.blocks.pinned) {
        if (pin == kNotPinned) continue;
        throw std::invalid_argument("field pinned: Many Objects places no pinned block, found " +
                                    std::to_string(pin));
    }
    if (instance.sections) return many_objects<SectionObjects>(instance, order, rules, stop);
    return instance.unsafe_rows ? many_objects<PairObjects<KeptRows>>(instance, order, rules, stop)
                                : many_objects<PairObjects<MadeRows>>(instance, order, rules, stop);
}

}  // namespace gapless
