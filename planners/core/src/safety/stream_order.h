// Which tensors are unsafe with each other, by a number for each tensor and stream: no table of
// pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// Note [Ends by stream]
// ~~~~~~~~~~~~~~~~~~~~~
// The nodes of a stream that wait for all users of a tensor are the last ones of that stream, for
// they run in order. The position of the first of them is the tensor's end in that stream. So a
// comes before b if and only if the producer of b stands at or behind the end of a in its stream;
// a and b are unsafe if and only if each one's producer stands before the other's end. That is 4
// bytes for each tensor and stream: 26 MB instead of 1.25 GB of bits for 100,000 tensors on 64.
//
// Rows are made where they are needed. Tensors are numbered by the stream of their producer and its
// position, each stream from a whole word on. Those whose producer stands before the end of b in
// some stream are then a range of numbers, and of them those are unsafe whose end in the stream of
// b is large enough: a comparison of numbers that lie side by side. Of the 64 numbers of a word the
// largest end is kept, so that most words of a long graph take one comparison.
class StreamOrder {
  public:
    // Throws std::length_error for more ends than require_table takes.
    StreamOrder(std::shared_ptr<const Graph> graph, Stop& stop);

    const Graph& graph() const { return *graph_; }

    bool unsafe(std::int32_t a, std::int32_t b) const { return !ends_by(a, b) && !ends_by(b, a); }

    // Number of each tensor in rows, and words of a row.
    std::int32_t number(std::int32_t tensor) const { return number_[tensor]; }
    std::int32_t tensor(std::int32_t number) const { return tensor_[number]; }
    std::size_t words() const { return tensor_.size() / 64; }

    // Writes a bit for every other tensor that is unsafe with one, by number.
    void find_row(std::int32_t tensor, std::vector<std::uint64_t>& row) const;

    // Number of tensors that each tensor is unsafe with.
    std::vector<std::int64_t> degrees(Stop& stop) const;

  private:
    void number_tensors();
    void find_ends(Stop& stop);

    const std::int32_t* ends_in(std::int32_t stream) const {
        return end_.data() + static_cast<std::size_t>(stream) * tensor_.size();
    }
    // Whether `tensor` is dead before `other` is born.
    bool ends_by(std::int32_t tensor, std::int32_t other) const {
        const std::int32_t producer = graph_->producer(other);
        return ends_in(graph_->stream(producer))[number_[tensor]] <= graph_->position(producer);
    }
    // The first number of a stream whose producer stands at or behind a position.
    std::int32_t first_from(std::int32_t stream, std::int32_t position) const {
        return first_from_[first_position_[stream] + std::min(position, length_[stream] + 1)];
    }

    std::shared_ptr<const Graph> graph_;
    // By tensor, and by number; -1 where a word is not full.
    std::vector<std::int32_t> number_, tensor_;
    // By stream: its nodes, its positions among those of all, and its first number.
    std::vector<std::int32_t> length_, first_position_, first_number_;
    // By stream and position, up to one past the last.
    std::vector<std::int32_t> first_from_;
    // By stream and number, and the largest of each word.
    std::vector<std::int32_t> end_, end_of_word_;
};

}  // namespace gapless
