// A relation between tensors as rows of bits: which pairs may not share bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gapless {

inline constexpr std::size_t kWordBits = 64;

// Dense rows of bits, each row padded to whole words. Bits past `count` are zero.
class BitRows {
  public:
    BitRows() = default;
    // All bits zero. Throws std::bad_alloc where the rows do not fit into memory.
    BitRows(std::size_t rows, std::size_t columns);

    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }
    std::size_t words() const { return words_; }

    std::uint64_t* row(std::size_t r) { return data_.data() + r * words_; }
    const std::uint64_t* row(std::size_t r) const { return data_.data() + r * words_; }

    bool test(std::size_t r, std::size_t c) const {
        return (row(r)[c / kWordBits] >> (c % kWordBits)) & 1U;
    }
    void set(std::size_t r, std::size_t c) { row(r)[c / kWordBits] |= bit(c); }
    void reset(std::size_t r, std::size_t c) { row(r)[c / kWordBits] &= ~bit(c); }

    // Ones in every column of every row.
    void fill();

    // Number of ones in a row.
    std::int64_t count_row(std::size_t r) const;

    static std::uint64_t bit(std::size_t c) { return std::uint64_t{1} << (c % kWordBits); }

  private:
    std::size_t rows_ = 0;
    std::size_t columns_ = 0;
    std::size_t words_ = 0;
    std::vector<std::uint64_t> data_;
};

// Turns "row precedes column" into "row and column are unsafe", in place: neither precedes the
// other, and they are two. The matrix is square.
void incomparable_from_precedes(BitRows& relation);

// The symmetric relation that holds for the given pairs. Throws std::out_of_range for a pair that
// names a tensor that does not exist.
BitRows rows_from_pairs(std::size_t count, const std::int64_t* pairs, std::size_t pair_count);

}  // namespace gapless
