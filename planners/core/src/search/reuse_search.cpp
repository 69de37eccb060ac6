#include "search/reuse_search.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
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
                         std::int64_t capacity, std::span<const std::int64_t> heads,
                         std::uint64_t seed)
    : columns_(instance.columns),
      blocks_(instance.blocks),
      capacity_(capacity),
      random_(seed),
      links_(instance.blocks.size.size()),
      heads_(heads.begin(), heads.end()) {
    if (!instance.unsafe_rows) throw std::invalid_argument("rows of unsafe pairs are needed");
    if (heads.size() != links_.size()) throw std::invalid_argument("one head a block is needed");
    if (prices.size() % 3 != 0) throw std::invalid_argument("rows of 3 numbers are needed");
    const std::int32_t tensors = instance.tensor_count();
    std::vector<std::int32_t> block_of(tensors), member_of(tensors);
    for (std::int32_t b = 0; b < blocks_.count(); ++b) {
        const auto members = blocks_.members_of(b);
        for (std::size_t m = 0; m < members.size(); ++m) {
            block_of[members[m]] = b;
            member_of[members[m]] = static_cast<std::int32_t>(m);
        }
        if (blocks_.pinned[b] == kNotPinned && blocks_.size[b] > 0) movable_.push_back(b);
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
    cost_ = least_ = price_of_all();
    best_ = heads_;
    costs_.assign(kMemory, cost_);
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

bool ReuseSearch::is_shared(std::int32_t block, const Link& link) const {
    const std::int64_t head = heads_[link.other];
    if (head == kOut) return false;
    const std::int64_t distance = heads_[block] - head;
    return link.from <= distance && distance < link.to;
}

std::int64_t ReuseSearch::price_of(std::int32_t block) const {
    std::int64_t price = 0;
    for (const Link& link : links_[block]) {
        if (link.price != kUnsafe && is_shared(block, link)) price += link.price;
    }
    return price;
}

std::int64_t ReuseSearch::price_of_all() const {
    std::int64_t twice = 0;
    for (std::int32_t b = 0; b < blocks_.count(); ++b) twice += price_of(b);
    return twice / 2;
}

// Sweeps the heads that a block may have, from change to change of its price.
bool ReuseSearch::find_place(std::int32_t block, Place& best) {
    const std::int64_t last = capacity_ - blocks_.size[block];
    changes_.clear();
    for (const Link& link : links_[block]) {
        const std::int64_t head = heads_[link.other];
        if (head == kOut) continue;
        const std::int64_t begin = std::max<std::int64_t>(0, head + link.from);
        if (begin > last || head + link.to <= 0) continue;
        const bool is_unsafe = link.price == kUnsafe;
        const Change change{begin, is_unsafe ? 0 : link.price, is_unsafe ? 1 : 0};
        changes_.push_back(change);
        changes_.push_back({head + link.to, -change.price, -change.unsafe});
    }
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return a.at < b.at; });
    bool is_found = false;
    std::int64_t price = 0, unsafe = 0;
    std::size_t next = 0;
    std::int64_t at = 0;
    while (true) {
        const std::int64_t head = blocks_.align(block, at);
        if (head > last) return is_found;
        for (; next < changes_.size() && changes_[next].at <= head; ++next) {
            price += changes_[next].price;
            unsafe += changes_[next].unsafe;
        }
        if (unsafe == 0 && (!is_found || price < best.price)) {
            best = {head, price};
            is_found = true;
        }
        if (next == changes_.size()) return is_found;
        at = changes_[next].at;
    }
}

// Takes out one block, which pays if some do, and blocks that are linked to it. Returns what they
// paid.
std::int64_t ReuseSearch::take_out() {
    taken_.clear();
    before_.clear();
    std::int64_t paid = 0;
    const auto take = [&](std::int32_t block) {
        if (heads_[block] == kOut || blocks_.pinned[block] != kNotPinned) return;
        paid += price_of(block);
        taken_.push_back(block);
        before_.push_back(heads_[block]);
        heads_[block] = kOut;
    };
    if (movable_.empty()) return paid;
    std::int32_t first = movable_[random_.below(movable_.size())];
    for (std::size_t draws = 0; draws < movable_.size() && price_of(first) == 0; ++draws) {
        first = movable_[random_.below(movable_.size())];
    }
    take(first);
    for (std::uint64_t more = 1 + random_.below(kMostTaken - 1); more > 0; --more) {
        const auto& links = links_[taken_[random_.below(taken_.size())]];
        if (!links.empty()) take(links[random_.below(links.size())].other);
    }
    return paid;
}

// Puts the blocks back that are out. Returns what they pay, or nothing if that exceeds `most`.
std::optional<std::int64_t> ReuseSearch::put_back(std::int64_t most) {
    order_ = taken_;
    for (std::size_t i = order_.size(); i > 1; --i) {
        std::swap(order_[i - 1], order_[random_.below(i)]);
    }
    std::int64_t paid = 0;
    for (const std::int32_t block : order_) {
        Place place{0, 0};
        if (!find_place(block, place) || place.price > most - paid) return std::nullopt;
        heads_[block] = place.head;
        paid += place.price;
    }
    return paid;
}

std::int64_t ReuseSearch::run(std::int64_t attempts, std::int64_t goal, Stop& stop) {
    std::int64_t made = 0;
    while (made < attempts && least_ > goal) {
        stop.poll();
        ++made;
        const std::int64_t left = cost_ - take_out();
        std::int64_t& remembered = costs_[static_cast<std::size_t>(attempts_++) % kMemory];
        if (const auto paid = put_back(std::max(cost_, remembered) - left)) {
            cost_ = left + *paid;
        } else {
            for (std::size_t i = 0; i < taken_.size(); ++i) heads_[taken_[i]] = before_[i];
        }
        remembered = std::min(remembered, cost_);
        if (cost_ < least_) {
            least_ = cost_;
            best_ = heads_;
        }
    }
    return made;
}

}  // namespace gapless
