#include "reorder/stream_order_search.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace gapless {

StreamOrderSearch::StreamOrderSearch(std::shared_ptr<const OrderProblem> problem,
                                     GraphColumns columns)
    : problem_(std::move(problem)), columns_(std::move(columns)) {
    const std::int32_t nodes = problem_->node_count();
    if (nodes > kMostNodes) {
        throw std::length_error("StreamOrderSearch: at most " + std::to_string(kMostNodes) +
                                " nodes are taken, found " + std::to_string(nodes));
    }
    columns_.require(static_cast<std::size_t>(nodes));
    size_ = columns_.size;
    made_by_.resize(nodes);
    for (std::size_t t = 0; t < columns_.producer.size(); ++t) {
        made_by_[columns_.producer[t]].push_back(static_cast<std::int32_t>(t));
    }
}

OrderVerdict StreamOrderSearch::run(std::int64_t floor, std::int64_t limit, std::int64_t flows,
                                    Stop& stop) {
    const std::int32_t nodes = problem_->node_count();
    floor_ = floor;
    limit_ = limit;
    most_flows_ = flows;
    flows_ = 0;
    order_.clear();
    best_.clear();
    ran_.assign(nodes, 0);
    blocked_.resize(nodes);
    for (std::int32_t v = 0; v < nodes; ++v) {
        blocked_[v] = static_cast<std::int32_t>(problem_->predecessors(v).size());
    }
    std::fill(columns_.size.begin(), columns_.size.end(), 0);
    if (!extend(0, stop)) return OrderVerdict::kStateLimit;
    return best_.empty() ? OrderVerdict::kRefuted : OrderVerdict::kFound;
}

bool StreamOrderSearch::could_be_swapped(std::int32_t v) const {
    if (order_.empty()) return false;
    const std::int32_t before = order_.back();
    const auto waits_for = problem_->predecessors(v);
    return v < before && columns_.stream[v] != columns_.stream[before] &&
           std::find(waits_for.begin(), waits_for.end(), before) == waits_for.end();
}

std::int64_t StreamOrderSearch::bound_of_begun(Stop& stop) {
    std::vector<std::int32_t> whole = order_;
    for (std::int32_t v = 0; v < problem_->node_count(); ++v) {
        if (!ran_[v]) whole.push_back(v);
    }
    ++flows_;
    return columns_.heaviest(whole, stop).bytes;
}

bool StreamOrderSearch::extend(std::int64_t antichain, Stop& stop) {
    stop.poll();
    if (antichain >= limit_) return true;
    if (order_.size() == ran_.size()) {
        limit_ = antichain;
        best_ = order_;
        return true;
    }
    for (std::int32_t v = 0; v < problem_->node_count() && limit_ > floor_; ++v) {
        if (ran_[v] || blocked_[v] != 0 || could_be_swapped(v)) continue;
        if (flows_ >= most_flows_) return false;
        order_.push_back(v);
        ran_[v] = 1;
        for (const std::int32_t w : problem_->successors(v)) --blocked_[w];
        for (const std::int32_t t : made_by_[v]) columns_.size[t] = size_[t];
        const bool is_done = extend(problem_->made(v) > 0 ? bound_of_begun(stop) : antichain, stop);
        for (const std::int32_t t : made_by_[v]) columns_.size[t] = 0;
        for (const std::int32_t w : problem_->successors(v)) ++blocked_[w];
        ran_[v] = 0;
        order_.pop_back();
        if (!is_done) return false;
    }
    return true;
}

}  // namespace gapless
