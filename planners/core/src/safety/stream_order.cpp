#include "safety/stream_order.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/bit_rows.h"
#include "model/require.h"

namespace gapless {

namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

// Returns a mask of the 64 numbers that exceed `least`. The comparison writes bytes, so that
// compilers vectorise it. The multiplication gathers the lowest bits of eight bytes in the highest
// byte.
std::uint64_t bits_above(const std::int32_t* numbers, std::int32_t least) {
    std::uint8_t above[kWordBits];
    for (std::size_t i = 0; i < kWordBits; ++i) above[i] = numbers[i] > least;
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < kWordBits; i += 8) {
        std::uint64_t eight = 0;
        for (std::size_t j = 0; j < 8; ++j) eight |= std::uint64_t{above[i + j]} << (8 * j);
        bits |= ((eight * 0x0102040810204080ULL) >> 56) << i;
    }
    return bits;
}

}  // namespace

StreamOrder::StreamOrder(std::shared_ptr<const Graph> graph, Stop& stop)
    : graph_(std::move(graph)) {
    number_tensors();
    require_table("ends of tensors", static_cast<std::int64_t>(tensor_.size()),
                  graph_->stream_count(), 32);
    find_ends(stop);
}

void StreamOrder::number_tensors() {
    const std::int32_t streams = graph_->stream_count();
    length_.assign(streams, 0);
    for (std::int32_t v = 0; v < graph_->node_count(); ++v) ++length_[graph_->stream(v)];
    // Positions count from 1. Each stream gets entries for position 0, its positions, and one past
    // the last.
    std::int32_t positions = 0;
    for (const std::int32_t length : length_) {
        first_position_.push_back(positions);
        positions += length + 2;
    }
    first_from_.assign(positions, 0);
    for (std::int32_t t = 0; t < graph_->tensor_count(); ++t) {
        const std::int32_t producer = graph_->producer(t);
        const std::int32_t stream = graph_->stream(producer);
        ++first_from_[first_position_[stream] + graph_->position(producer) + 1];
    }
    std::int32_t next = 0;
    for (std::int32_t s = 0; s < streams; ++s) {
        first_number_.push_back(next);
        for (std::int32_t p = 0; p < length_[s] + 2; ++p) {
            next += first_from_[first_position_[s] + p];
            first_from_[first_position_[s] + p] = next;
        }
        next = static_cast<std::int32_t>((next + kWordBits - 1) / kWordBits * kWordBits);
    }
    first_number_.push_back(next);
    tensor_.assign(next, -1);
    number_.resize(graph_->tensor_count());
    std::vector<std::int32_t> taken(first_from_.size(), 0);
    for (std::int32_t t = 0; t < graph_->tensor_count(); ++t) {
        const std::int32_t producer = graph_->producer(t);
        const std::int32_t at =
            first_position_[graph_->stream(producer)] + graph_->position(producer);
        number_[t] = first_from_[at] + taken[at]++;
        tensor_[number_[t]] = t;
    }
}

void StreamOrder::find_ends(Stop& stop) {
    const auto streams = static_cast<std::size_t>(graph_->stream_count());
    // For each node and stream: the first position of a node of the stream that waits for the node.
    require_table("nodes that wait", graph_->node_count(), graph_->stream_count(), 32);
    std::vector<std::int32_t> next(graph_->node_count() * streams, kNever);
    for (std::int32_t v = graph_->node_count(); v-- > 0;) {
        stop.poll();
        const std::int32_t* later = next.data() + static_cast<std::size_t>(v) * streams;
        for (const std::int32_t u : graph_->predecessors(v)) {
            std::int32_t* row = next.data() + static_cast<std::size_t>(u) * streams;
            for (std::size_t s = 0; s < streams; ++s) row[s] = std::min(row[s], later[s]);
            std::int32_t& own = row[graph_->stream(v)];
            own = std::min(own, graph_->position(v));
        }
    }
    end_.assign(streams * tensor_.size(), 0);
    end_of_word_.assign(streams * words(), 0);
    std::vector<std::int32_t> ends(streams);
    for (std::int32_t t = 0; t < graph_->tensor_count(); ++t) {
        stop.poll();
        std::fill(ends.begin(), ends.end(), 0);
        for (const std::int32_t user : graph_->last_users(t)) {
            const std::int32_t* later = next.data() + static_cast<std::size_t>(user) * streams;
            for (std::size_t s = 0; s < streams; ++s) ends[s] = std::max(ends[s], later[s]);
        }
        const auto number = static_cast<std::size_t>(number_[t]);
        for (std::size_t s = 0; s < streams; ++s) {
            end_[s * tensor_.size() + number] = ends[s];
            std::int32_t& largest = end_of_word_[s * words() + number / kWordBits];
            largest = std::max(largest, ends[s]);
        }
    }
}

void StreamOrder::find_row(std::int32_t tensor, std::vector<std::uint64_t>& row) const {
    row.assign(words(), 0);
    const std::int32_t producer = graph_->producer(tensor);
    const std::int32_t born = graph_->position(producer);
    const std::int32_t* end = ends_in(graph_->stream(producer));
    const std::int32_t* end_of_word =
        end_of_word_.data() + static_cast<std::size_t>(graph_->stream(producer)) * words();
    const std::int32_t number = number_[tensor];
    for (std::int32_t s = 0; s < graph_->stream_count(); ++s) {
        const auto first = static_cast<std::size_t>(first_number_[s]);
        const auto last = static_cast<std::size_t>(first_from(s, ends_in(s)[number]));
        for (std::size_t w = first / kWordBits; w * kWordBits < last; ++w) {
            if (end_of_word[w] > born) row[w] = bits_above(end + w * kWordBits, born);
        }
        if (last % kWordBits != 0) row[last / kWordBits] &= BitRows::bit(last) - 1;
    }
    row[number / kWordBits] &= ~BitRows::bit(number);
}

std::vector<std::int64_t> StreamOrder::degrees(Stop& stop) const {
    // The degree is the number of other tensors, less those born at or after the end of the tensor,
    // and less those that end at or before its birth.
    const std::int32_t tensors = graph_->tensor_count();
    std::vector<std::int64_t> degree(tensors, tensors - 1);
    std::vector<std::int64_t> ended;
    for (std::int32_t s = 0; s < graph_->stream_count(); ++s) {
        stop.check();
        const std::int32_t* end = ends_in(s);
        const std::int32_t last = first_from(s, kNever);
        ended.assign(static_cast<std::size_t>(length_[s]) + 1, 0);
        for (std::int32_t t = 0; t < tensors; ++t) {
            const std::int32_t at = end[number_[t]];
            if (at == kNever) continue;
            degree[t] -= last - first_from(s, at);
            ++ended[at];
        }
        for (std::int32_t p = 1; p <= length_[s]; ++p) ended[p] += ended[p - 1];
        for (std::int32_t n = first_number_[s]; n < last; ++n) {
            degree[tensor_[n]] -= ended[graph_->position(graph_->producer(tensor_[n]))];
        }
    }
    return degree;
}

}  // namespace gapless
