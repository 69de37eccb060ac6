#include "bit_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

namespace gapless {

namespace {

using Tile = std::array<std::uint64_t, kWordBits>;

// Transposes 64 x 64 bits by swapping ever smaller quadrants: 6 rounds instead of 4,096 moves.
void transpose(Tile& tile) {
    std::uint64_t mask = 0x00000000FFFFFFFFULL;
    for (std::size_t half = 32; half != 0; half >>= 1, mask ^= mask << half) {
        for (std::size_t r = 0; r < kWordBits; r = ((r | half) + 1) & ~half) {
            const std::uint64_t moved = ((tile[r] >> half) ^ tile[r | half]) & mask;
            tile[r] ^= moved << half;
            tile[r | half] ^= moved;
        }
    }
}

Tile load(const BitRows& rows, std::size_t tile_row, std::size_t word) {
    Tile tile{};
    const std::size_t first = tile_row * kWordBits;
    const std::size_t last = std::min(rows.rows(), first + kWordBits);
    for (std::size_t r = first; r < last; ++r) tile[r - first] = rows.row(r)[word];
    return tile;
}

// Ones for the columns of a word that exist.
std::uint64_t valid_columns(const BitRows& rows, std::size_t word) {
    const std::size_t left = rows.columns() - word * kWordBits;
    return left >= kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

void store_complement(BitRows& rows, std::size_t tile_row, std::size_t word, const Tile& tile) {
    const std::uint64_t valid = valid_columns(rows, word);
    const std::size_t first = tile_row * kWordBits;
    const std::size_t last = std::min(rows.rows(), first + kWordBits);
    for (std::size_t r = first; r < last; ++r) rows.row(r)[word] = ~tile[r - first] & valid;
}

}  // namespace

BitRows::BitRows(std::size_t rows, std::size_t columns)
    : rows_(rows),
      columns_(columns),
      words_((columns + kWordBits - 1) / kWordBits),
      data_(rows * words_, 0) {}

void BitRows::fill() {
    std::fill(data_.begin(), data_.end(), ~std::uint64_t{0});
    if (columns_ % kWordBits != 0) {
        for (std::size_t r = 0; r < rows_; ++r)
            row(r)[words_ - 1] = valid_columns(*this, words_ - 1);
    }
}

std::int64_t BitRows::count_row(std::size_t r) const {
    std::int64_t ones = 0;
    for (std::size_t w = 0; w < words_; ++w) ones += std::popcount(row(r)[w]);
    return ones;
}

void incomparable_from_precedes(BitRows& relation) {
    const std::size_t tiles = relation.words();
    for (std::size_t i = 0; i < tiles; ++i) {
        for (std::size_t j = i; j < tiles; ++j) {
            Tile upper = load(relation, i, j);
            Tile lower = load(relation, j, i);
            Tile lower_transposed = lower;
            transpose(lower_transposed);
            for (std::size_t r = 0; r < kWordBits; ++r) upper[r] |= lower_transposed[r];
            store_complement(relation, i, j, upper);
            if (i == j) continue;
            transpose(upper);
            store_complement(relation, j, i, upper);
        }
    }
    for (std::size_t r = 0; r < relation.rows(); ++r) relation.reset(r, r);
}

BitRows rows_from_pairs(std::size_t count, const std::int64_t* pairs, std::size_t pair_count) {
    BitRows rows(count, count);
    for (std::size_t p = 0; p < pair_count; ++p) {
        const std::int64_t a = pairs[2 * p];
        const std::int64_t b = pairs[2 * p + 1];
        if (a < 0 || b < 0 || a >= static_cast<std::int64_t>(count) ||
            b >= static_cast<std::int64_t>(count)) {
            throw std::out_of_range("a pair names a tensor that does not exist");
        }
        rows.set(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
        rows.set(static_cast<std::size_t>(b), static_cast<std::size_t>(a));
    }
    return rows;
}

}  // namespace gapless
