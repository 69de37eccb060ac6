// The rules that arguments from Python must satisfy. An error names the field, the entry, the value
// found and what would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gapless {

// Note [The border]
// ~~~~~~~~~~~~~~~~~
// Rationale. A loop over a million tensors cannot afford to check every index. A wrong index from a
// Python caller must not corrupt the heap.
// Approach. Every exported function copies its arrays while it holds the interpreter lock, so that
// no other thread can change them after the check. A constructor or a binding checks the copy once,
// in time linear in its length. All code behind the border trusts the copy. Memory that grows
// faster than the arguments is bounded before it is allocated. The exception types are:
// std::out_of_range for an index of something that does not exist, std::overflow_error for a sum
// that is too large, std::length_error for more entries than are allowed, std::invalid_argument for
// every other broken rule.
// Limits. The border does not check results. Whether a plan is right is decided by the referee.

// Limits, in bytes, the sum of sizes, moduli and the largest pin. Problem already keeps this sum
// below 2^61 up to the rounding of floating point. The sum of three such numbers does not overflow
// an int64.
inline constexpr std::int64_t kMostBytes = (std::int64_t{1} << 61) + (std::int64_t{1} << 58);
// Limits the entries of one column, so that a few numbers for each entry can be counted in 32 bits.
inline constexpr std::int64_t kMostEntries = std::int64_t{1} << 27;
// Limits, in bytes, a table that grows faster than its input. The value is a guess.
inline constexpr std::int64_t kMostTableBytes = std::int64_t{4} << 30;

void require_count(const char* field, std::size_t found);
// Requires `count` entries, one for each of what `each` names.
void require_length(const char* field, std::size_t found, const char* each, std::size_t count);
// Requires an index in [0, count). `numbered` names what is counted.
void require_index(const char* field, std::int64_t found, const char* numbered, std::int64_t count);
void require_indices(const char* field, std::span<const std::int32_t> found, const char* numbered,
                     std::int64_t count);
void require_at_least(const char* field, std::span<const std::int64_t> found, std::int64_t least);
// Requires offsets of compressed rows: they begin at 0, end at `entries`, and give each row at
// least `least` entries.
void require_offsets(const char* field, std::span<const std::int64_t> offsets, std::size_t entries,
                     std::int64_t least);
// Requires numbers of at least 0. Returns `total` plus their sum, which may not exceed kMostBytes.
std::int64_t require_total(const char* field, std::span<const std::int64_t> found,
                           std::int64_t total = 0);
// Requires, for each block, an offset rule: `residue` modulo a power of two; and a pinned offset
// that obeys the rule, or -1.
void require_block_conditions(std::span<const std::int64_t> modulus,
                              std::span<const std::int64_t> residue,
                              std::span<const std::int64_t> pinned);
// Requires that a table of `rows` x `columns` entries of `entry_bits` bits stays within the limit.
void require_table(const char* table, std::int64_t rows, std::int64_t columns,
                   std::int64_t entry_bits);

[[noreturn]] void refuse(const char* field, std::size_t entry, const std::string& rule,
                         std::int64_t found);

}  // namespace gapless
