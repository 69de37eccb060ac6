// Decides which tensors are unsafe from one number for each tensor and stream, without a table of
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
// The nodes of a stream that wait for all users of a tensor are a suffix of the stream, because a
// stream runs in order. The position of the first such node is the tensor's end in that stream.
// Tensor a precedes tensor b if and only if the producer of b stands at or after the end of a in
// the producer's stream. Tensors a and b are unsafe if and only if each one's producer stands
// before the other's end. The ends take 4 bytes for each tensor and stream: 26 MB instead of 1.25
// GB of bits for 100,000 tensors on 64 streams.
//
// A row is computed when it is needed. Tensors are numbered by the stream of their producer, then
// by its position; each stream starts at a whole word. In each stream, the tensors whose producers
// stand before the end of b are a range of numbers. In that range, exactly the tensors whose end in
// b's stream exceeds b's position are unsafe, which is a comparison of adjacent numbers. The
// largest end of each 64 numbers is kept too, so most words of a long graph need one comparison.
class StreamOrder {
  public:
    // Throws std::length_error for more ends than require_table allows.
    StreamOrder(std::shared_ptr<const Graph> graph, Stop& stop);

    const Graph& graph() const { return *graph_; }

    bool unsafe(std::int32_t a, std::int32_t b) const { return !ends_by(a, b) && !ends_by(b, a); }

    // The number of a tensor in rows, the inverse of that numbering, and the number of words of a
    // row.
    std::int32_t number(std::int32_t tensor) const { return number_[tensor]; }
    std::int32_t tensor(std::int32_t number) const { return tensor_[number]; }
    std::size_t words() const { return tensor_.size() / 64; }

    // Sets a bit, by number, for every other tensor that is unsafe with `tensor`.
    void find_row(std::int32_t tensor, std::vector<std::uint64_t>& row) const;

    // Returns, for each tensor, the number of tensors that it is unsafe with.
    std::vector<std::int64_t> degrees(Stop& stop) const;

  private:
    void number_tensors();
    void find_ends(Stop& stop);

    const std::int32_t* ends_in(std::int32_t stream) const {
        return end_.data() + static_cast<std::size_t>(stream) * tensor_.size();
    }
    // Returns true if `tensor` is dead before `other` is born.
    bool ends_by(std::int32_t tensor, std::int32_t other) const {
        const std::int32_t producer = graph_->producer(other);
        return ends_in(graph_->stream(producer))[number_[tensor]] <= graph_->position(producer);
    }
    // The first number of a stream whose producer stands at or after a position.
    std::int32_t first_from(std::int32_t stream, std::int32_t position) const {
        return first_from_[first_position_[stream] + std::min(position, length_[stream] + 1)];
    }

    std::shared_ptr<const Graph> graph_;
    // Numbers by tensor, and tensors by number; -1 for the padding at the end of a stream.
    std::vector<std::int32_t> number_, tensor_;
    // By stream: its number of nodes, the index of its first position, and its first tensor number.
    std::vector<std::int32_t> length_, first_position_, first_number_;
    // By stream and position, up to one past the last: the first number with that position or a
    // later one.
    std::vector<std::int32_t> first_from_;
    // By stream and number: the end; by stream and word: the largest end of the word.
    std::vector<std::int32_t> end_, end_of_word_;
};

}  // namespace gapless
