#include "model/bit_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "model/require.h"

namespace gapless {

namespace {

// Bytes of a huge page on x86-64 Linux.
constexpr std::size_t kPageBytes = 2 << 20;
// Words in a cache line of 64 bytes. The loop works on squares of 8 x 8 tiles, so that every
// fetched cache line is used whole.
constexpr std::size_t kLineWords = 8;

using Tile = std::array<std::uint64_t, kWordBits>;

// Transposes 64 x 64 bits by swapping quadrants of halving size: 6 rounds instead of 4,096
// single-bit moves. If tensors are numbered in the order of their producers, most tiles of
// "precedes" are all zeros or all ones; such a tile is its own transpose.
void transpose(Tile& tile) {
    const bool uniform =
        std::all_of(tile.begin(), tile.end(), [&](std::uint64_t word) { return word == tile[0]; });
    if (uniform && (tile[0] == 0 || tile[0] == ~std::uint64_t{0})) return;
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

// Returns a mask with a one for every column of the word that exists.
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

// Makes tile (i, j) and its mirror tile (j, i) symmetric, then complements both.
void complement_tile_pair(BitRows& relation, std::size_t i, std::size_t j) {
    Tile upper = load(relation, i, j);
    Tile lower = load(relation, j, i);
    transpose(lower);
    for (std::size_t r = 0; r < kWordBits; ++r) upper[r] |= lower[r];
    store_complement(relation, i, j, upper);
    if (i == j) return;
    transpose(upper);
    store_complement(relation, j, i, upper);
}

}  // namespace

BitRows::BitRows(std::size_t rows, std::size_t columns)
    : rows_(rows), columns_(columns), words_((columns + kWordBits - 1) / kWordBits) {
    require_table("a relation as bits", static_cast<std::int64_t>(rows),
                  static_cast<std::int64_t>(columns), 1);
    // calloc returns fresh pages that are already zero, and huge pages cost fewer page faults. Both
    // only save time: the rows of 20,000 tensors take 50 MB and are written once.
    const std::size_t bytes = std::max<std::size_t>(rows_ * words_ * sizeof(std::uint64_t), 1);
    data_.reset(static_cast<std::uint64_t*>(std::calloc(bytes, 1)));
    if (!data_) throw std::bad_alloc();
    const std::size_t address = reinterpret_cast<std::size_t>(data_.get());
    const std::size_t first = (address + kPageBytes - 1) / kPageBytes * kPageBytes;
    const std::size_t last = (address + bytes) / kPageBytes * kPageBytes;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

std::int64_t BitRows::count_row(std::size_t r) const {
    std::int64_t ones = 0;
    for (std::size_t w = 0; w < words_; ++w) ones += std::popcount(row(r)[w]);
    return ones;
}

void unsafe_from_safe(BitRows& relation, Stop& stop) {
    const std::size_t tiles = relation.words();
    for (std::size_t top = 0; top < tiles; top += kLineWords) {
        for (std::size_t left = top; left < tiles; left += kLineWords) {
            for (std::size_t i = top; i < std::min(tiles, top + kLineWords); ++i) {
                stop.poll();
                for (std::size_t j = std::max(i, left); j < std::min(tiles, left + kLineWords);
                     ++j) {
                    complement_tile_pair(relation, i, j);
                }
            }
        }
    }
    for (std::size_t r = 0; r < relation.rows(); ++r) relation.reset(r, r);
}

BitRows rows_from_pairs(std::size_t count, std::span<const std::int64_t> pairs) {
    require_count("tensors", count);
    BitRows rows(count, count);
    for (std::size_t p = 0; p + 1 < pairs.size(); p += 2) {
        const std::int64_t a = pairs[p], b = pairs[p + 1];
        require_index("pairs", a, "tensors", static_cast<std::int64_t>(count));
        require_index("pairs", b, "tensors", static_cast<std::int64_t>(count));
        if (a == b) refuse("pairs", p / 2, "two different tensors are needed", a);
        rows.set(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
        rows.set(static_cast<std::size_t>(b), static_cast<std::size_t>(a));
    }
    return rows;
}

}  // namespace gapless
