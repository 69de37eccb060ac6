// The rules that arguments are held against, and how a broken one is told: which field, which
// entry, what was found there and what would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gapless {

// Note [The border]
// ~~~~~~~~~~~~~~~~~
// Rationale. Loops over a million tensors cannot afford to doubt every index, and a caller from
// Python cannot be trusted with a heap.
// Approach. What is exported copies its arrays while it holds the interpreter, so that no other
// thread can change what was checked, and checks the copy once, in time linear in its length, in a
// constructor or a binding. Everything behind that trusts it. Memory that grows faster than the
// arguments is bounded before it is taken. A name of something that does not exist is an
// std::out_of_range, a sum that is too large an std::overflow_error, more of anything than is taken
// an std::length_error, and every other broken rule an std::invalid_argument.
// Limits. A result of an algorithm is as good as its arguments: that a plan is right is for the
// referee to say.

// Sizes, moduli and the largest pin together. A Problem keeps below 2^61, give or take the rounding
// of its sum in floating point; and three such numbers add up without overflow.
inline constexpr std::int64_t kMostBytes = (std::int64_t{1} << 61) + (std::int64_t{1} << 58);
// Entries of one column: a few numbers for each can be counted in 32 bits.
inline constexpr std::int64_t kMostEntries = std::int64_t{1} << 27;
// A table that grows faster than what it is made from.
inline constexpr std::int64_t kMostTableBytes = std::int64_t{4} << 30;

void require_count(const char* field, std::size_t found);
// One entry for each of `count` of something.
void require_length(const char* field, std::size_t found, const char* each, std::size_t count);
// `count` of something are numbered from 0.
void require_index(const char* field, std::int64_t found, const char* numbered, std::int64_t count);
void require_indices(const char* field, std::span<const std::int32_t> found, const char* numbered,
                     std::int64_t count);
void require_at_least(const char* field, std::span<const std::int64_t> found, std::int64_t least);
// Offsets of compressed rows, each of at least so many of all entries.
void require_offsets(const char* field, std::span<const std::int64_t> offsets, std::size_t entries,
                     std::int64_t least);
// Numbers of at least 0 that come on top of `total`, which it returns with them.
std::int64_t require_total(const char* field, std::span<const std::int64_t> found,
                           std::int64_t total = 0);
// Offsets of blocks: `residue` modulo a power of two, or pinned to one of these; -1 where not.
void require_block_conditions(std::span<const std::int64_t> modulus,
                              std::span<const std::int64_t> residue,
                              std::span<const std::int64_t> pinned);
// Room for `rows` times `columns` entries of so many bits.
void require_table(const char* table, std::int64_t rows, std::int64_t columns,
                   std::int64_t entry_bits);

[[noreturn]] void refuse(const char* field, std::size_t entry, const std::string& rule,
                         std::int64_t found);

}  // namespace gapless
