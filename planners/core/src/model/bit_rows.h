// A relation between tensors as rows of bits: which pairs may not share bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "model/stop.h"

namespace gapless {

inline constexpr std::size_t kWordBits = 64;

// Calls `see` with the position of every one bit, in rising order.
template <class See>
void for_each_one(std::span<const std::uint64_t> words, See see) {
    for (std::size_t w = 0; w < words.size(); ++w) {
        for (std::uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
            see(w * kWordBits + static_cast<std::size_t>(std::countr_zero(bits)));
        }
    }
}

// Dense rows of bits. Each row is padded to whole words; the padding bits are zero.
class BitRows {
  public:
    BitRows() = default;
    // Makes a table of zeros. Throws std::length_error if the table is larger than require_table
    // allows, and std::bad_alloc if memory for the rows is not available.
    BitRows(std::size_t rows, std::size_t columns);

    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }
    std::size_t words() const { return words_; }

    std::uint64_t* row(std::size_t r) { return data_.get() + r * words_; }
    const std::uint64_t* row(std::size_t r) const { return data_.get() + r * words_; }

    bool test(std::size_t r, std::size_t c) const {
        return (row(r)[c / kWordBits] >> (c % kWordBits)) & 1U;
    }
    void set(std::size_t r, std::size_t c) { row(r)[c / kWordBits] |= bit(c); }
    void reset(std::size_t r, std::size_t c) { row(r)[c / kWordBits] &= ~bit(c); }

    std::int64_t count_row(std::size_t r) const;

    // Calls `see` with the column of every one in a row, in rising order.
    template <class See>
    void for_each_in_row(std::size_t r, See see) const {
        for_each_one({row(r), words_}, see);
    }

    static std::uint64_t bit(std::size_t c) { return std::uint64_t{1} << (c % kWordBits); }

  private:
    struct Free {
        void operator()(std::uint64_t* words) const { std::free(words); }
    };

    std::size_t rows_ = 0;
    std::size_t columns_ = 0;
    std::size_t words_ = 0;
    std::unique_ptr<std::uint64_t[], Free> data_;
};

// Turns the relation "safe" into the relation "unsafe", in place. A safe pair may be marked in one
// of its two rows or in both. The result is symmetric, and no tensor is unsafe with itself. The
// matrix must be square.
void unsafe_from_safe(BitRows& relation, Stop& stop);

// Returns the symmetric relation of the given pairs, listed as a, b, a, b, ... Throws
// std::out_of_range if a pair names a tensor that does not exist, and std::invalid_argument if a
// pair names one tensor twice.
BitRows rows_from_pairs(std::size_t count, std::span<const std::int64_t> pairs);

}  // namespace gapless
