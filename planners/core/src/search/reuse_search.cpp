#include "search/reuse_search.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace gapless {

namespace {

// Length of late acceptance, in attempts; at most this many blocks are taken out. Both are guesses:
// ten times the length, and half or double the blocks, cost about as much on three problems of 150
// to 300 tensors.
constexpr std::size_t kMemory = 200;
constexpr std::uint64_t kMostTaken = 14;

constexpr std::int64_t kUnsafe = -1;
constexpr std::int64_t kOut = -1;

}  // namespace

ReuseSearch::ReuseSearch(const Instance& instance, std::span<const std::int64_t> prices,
                         std::span<const std::int64_t> ranges, std::span<const std::int64_t> heads,
                         std::uint64_t seed)
    : columns_(instance.columns),
      blocks_(instance.blocks),
      random_(seed),
      links_(instance.blocks.size.size()),
      ranges_(links_.size()),
      must_pay_(links_.size(), 0),
      heads_(links_.size(), kOut) {
    if (!instance.unsafe_rows) throw std::invalid_argument("rows of unsafe pairs are needed");
    if (heads.size() != links_.size()) throw std::invalid_argument("one head a block is needed");
    add_ranges(ranges);
    add_all_links(instance, prices);
    enter(heads);
}

void ReuseSearch::add_ranges(std::span<const std::int64_t> rows) {
    if (rows.size() % 6 != 0) throw std::invalid_argument("ranges: rows of 6 numbers are needed");
    for (std::size_t row = 0; row < rows.size(); row += 6) {
        const auto b = static_cast<std::size_t>(rows[row]);
        const Range range{rows[row + 1], rows[row + 2], rows[row + 3], rows[row + 4],
                          rows[row + 5]};
        if (b >= ranges_.size() || range.modulus < 1) {
            throw std::invalid_argument("a range needs a block and a modulus");
        }
        auto& own = ranges_[b];
        const std::int64_t after = own.empty() ? kOut : own.back().last;
        if (range.first <= after || range.last < range.first) {
            throw std::invalid_argument("the ranges of a block ascend");
        }
        must_pay_[b] = own.empty() ? range.cost : std::min(must_pay_[b], range.cost);
        own.push_back(range);
    }
    for (std::int32_t b = 0; b < blocks_.count(); ++b) {
        if (blocks_.size[b] > 0 && !is_fixed(b)) movable_.push_back(b);
    }
}

void ReuseSearch::add_all_links(const Instance& instance, std::span<const std::int64_t> prices) {
    if (prices.size() % 3 != 0) throw std::invalid_argument("prices: rows of 3 numbers are needed");
    const std::int32_t tensors = instance.tensor_count();
    std::vector<std::int32_t> block_of(tensors), member_of(tensors);
    for (std::int32_t b = 0; b < blocks_.count(); ++b) {
        const auto members = blocks_.members_of(b);
        for (std::size_t m = 0; m < members.size(); ++m) {
            block_of[members[m]] = b;
            member_of[members[m]] = static_cast<std::int32_t>(m);
        }
    }
    const auto link = [&](std::int32_t first, std::int32_t second, std::int64_t price) {
        if (instance.size[first] == 0 || instance.size[second] == 0) return;
        add_links(block_of[first], member_of[first], block_of[second], member_of[second], price);
    };
    for (std::int32_t first = 0; first < tensors; ++first) {
        for (const std::int32_t second : instance.unsafe_with(first)) {
            if (first < second) link(first, second, kUnsafe);
        }
    }
    for (std::size_t row = 0; row < prices.size(); row += 3) {
        const std::int64_t first = prices[row], second = prices[row + 1];
        if (first < 0 || second < 0 || first >= tensors || second >= tensors) {
            throw std::invalid_argument("a price needs two tensors of the instance");
        }
        link(static_cast<std::int32_t>(first), static_cast<std::int32_t>(second), prices[row + 2]);
    }
}

void ReuseSearch::add_links(std::int32_t block, std::int32_t member, std::int32_t other,
                            std::int32_t with, std::int64_t price) {
    // Blocks never move apart, so members of one block are as the chain puts them.
    if (block == other) return;
    const auto span = [this](std::int32_t b, std::int32_t m) {
        const std::int64_t begin = blocks_.before_of(b, static_cast<std::size_t>(m));
        const auto members = blocks_.members_of(b);
        const auto next = static_cast<std::size_t>(m) + 1;
        return std::pair(begin,
                         next < members.size() ? blocks_.before_of(b, next) : blocks_.size[b]);
    };
    const auto [begin, end] = span(block, member);
    const auto [other_begin, other_end] = span(other, with);
    links_[block].push_back({other, other_begin - end + 1, other_end - begin, price});
    links_[other].push_back({block, begin - other_end + 1, end - other_begin, price});
}

// Takes the heads of a plan over; the blocks that are not in it wait.
void ReuseSearch::enter(std::span<const std::int64_t> heads) {
    for (std::int32_t b = 0; b < blocks_.count(); ++b) {
        if (blocks_.size[b] == 0 || cost_at(b, heads[b])) {
            heads_[b] = heads[b];
        } else {
            waiting_.push_back(b);
        }
        cost_ = cost_ + paid_by(b);
    }
    const auto key = [this](std::int32_t b) {
        return std::tuple(is_fixed(b), blocks_.size[b], links_[b].size());
    };
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    least_ = cost_;
    best_ = heads_;
}

// Without a choice a block never moves: no plan has it elsewhere.
bool ReuseSearch::is_fixed(std::int32_t block) const {
    const auto& ranges = ranges_[block];
    return ranges.empty() || ranges.front().first == ranges.back().last;
}

bool ReuseSearch::is_shared(std::int32_t block, const Link& link) const {
    const std::int64_t head = heads_[link.other];
    if (head == kOut) return false;
    const std::int64_t distance = heads_[block] - head;
    return link.from <= distance && distance < link.to;
}

// Returns what a head costs by its range, or nothing if the block may not have it.
std::optional<std::int64_t> ReuseSearch::cost_at(std::int32_t block, std::int64_t head) const {
    for (const Range& range : ranges_[block]) {
        if (range.first <= head && head <= range.last) {
            return range.align(head) == head ? std::optional(range.cost) : std::nullopt;
        }
    }
    return std::nullopt;
}

ReuseSearch::Cost ReuseSearch::paid_by(std::int32_t block) const {
    if (heads_[block] == kOut) return {blocks_.size[block], 0};
    std::int64_t price = cost_at(block, heads_[block]).value_or(0);
    for (const Link& link : links_[block]) {
        if (link.price != kUnsafe && is_shared(block, link)) price += link.price;
    }
    return {0, price};
}

// Returns whether another plan could pay less for a block.
bool ReuseSearch::pays(std::int32_t block) const {
    if (cost_.bytes_out > 0) return heads_[block] == kOut;
    return paid_by(block).price > must_pay_[block];
}

// Sweeps the heads that a block may have, from change to change of its price.
std::optional<ReuseSearch::Place> ReuseSearch::find_place(std::int32_t block) {
    std::optional<Place> best;
    const auto& ranges = ranges_[block];
    if (ranges.empty()) return best;
    const std::int64_t first = ranges.front().first, last = ranges.back().last;
    changes_.clear();
    for (const Link& link : links_[block]) {
        const std::int64_t head = heads_[link.other];
        if (head == kOut || head + link.from > last || head + link.to <= first) continue;
        const bool is_unsafe = link.price == kUnsafe;
        const Change change{head + link.from, is_unsafe ? 0 : link.price, is_unsafe ? 1 : 0};
        changes_.push_back(change);
        changes_.push_back({head + link.to, -change.price, -change.unsafe});
    }
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return a.at < b.at; });
    std::int64_t price = 0, unsafe = 0;
    std::size_t next = 0;
    for (const Range& range : ranges) {
        for (std::int64_t head = range.first; head <= range.last;) {
            for (; next < changes_.size() && changes_[next].at <= head; ++next) {
                price += changes_[next].price;
                unsafe += changes_[next].unsafe;
            }
            const std::int64_t paid = price + range.cost;
            if (unsafe == 0 && (!best || paid < best->price)) best = {head, paid};
            if (best && best->price <= must_pay_[block]) return best;
            if (next == changes_.size()) break;
            head = range.align(changes_[next].at);
        }
    }
    return best;
}

// Puts a block where it pays least, if there is a place. Returns what it pays.
ReuseSearch::Cost ReuseSearch::put(std::int32_t block) {
    const std::optional<Place> place = find_place(block);
    if (!place) return {blocks_.size[block], 0};
    heads_[block] = place->head;
    return {0, place->price};
}

// Takes out one block, which pays if some do, and blocks that are linked to it. Returns what they
// paid.
ReuseSearch::Cost ReuseSearch::take_out() {
    taken_.clear();
    before_.clear();
    Cost paid{0, 0};
    const auto take = [&](std::int32_t block) {
        if (is_fixed(block) || std::find(taken_.begin(), taken_.end(), block) != taken_.end()) {
            return;
        }
        paid = paid + paid_by(block);
        taken_.push_back(block);
        before_.push_back(heads_[block]);
        heads_[block] = kOut;
    };
    if (movable_.empty()) return paid;
    std::int32_t first = movable_[random_.below(movable_.size())];
    for (std::size_t draws = 0; draws < movable_.size() && !pays(first); ++draws) {
        first = movable_[random_.below(movable_.size())];
    }
    take(first);
    for (std::uint64_t more = 1 + random_.below(kMostTaken - 1); more > 0; --more) {
        const auto& links = links_[taken_[random_.below(taken_.size())]];
        if (!links.empty()) take(links[random_.below(links.size())].other);
    }
    return paid;
}

// Puts back the blocks that were taken out. Returns what the plan then costs, where it cost `left`
// without them, or nothing if that exceeds `most`.
std::optional<ReuseSearch::Cost> ReuseSearch::put_back(Cost left, Cost most) {
    order_ = taken_;
    for (std::size_t i = order_.size(); i > 1; --i) {
        std::swap(order_[i - 1], order_[random_.below(i)]);
    }
    for (const std::int32_t block : order_) {
        left = left + put(block);
        if (left > most) return std::nullopt;
    }
    return left;
}

void ReuseSearch::keep_if_best() {
    if (cost_ < least_) {
        least_ = cost_;
        best_ = heads_;
    }
}

std::int64_t ReuseSearch::run(std::int64_t attempts, std::int64_t goal, Stop& stop) {
    for (; !waiting_.empty(); waiting_.pop_back()) {
        stop.poll();
        const std::int32_t block = waiting_.back();
        cost_ = cost_ - Cost{blocks_.size[block], 0} + put(block);
    }
    keep_if_best();
    if (costs_.empty()) costs_.assign(kMemory, cost_);
    std::int64_t made = 0;
    while (made < attempts && least_ > Cost{0, goal}) {
        stop.poll();
        ++made;
        const Cost left = cost_ - take_out();
        Cost& remembered = costs_[static_cast<std::size_t>(attempts_++) % kMemory];
        if (const auto after = put_back(left, std::max(cost_, remembered))) {
            cost_ = *after;
        } else {
            for (std::size_t i = 0; i < taken_.size(); ++i) heads_[taken_[i]] = before_[i];
        }
        remembered = std::min(remembered, cost_);
        keep_if_best();
    }
    return made;
}

}  // namespace gapless
