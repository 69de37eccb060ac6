#include "model/require.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace gapless {

namespace {

std::string at_entry(const char* field, std::size_t entry) {
    return std::string("field ") + field + ", entry " + std::to_string(entry);
}

[[noreturn]] void refuse_index(const std::string& where, std::int64_t found, const char* numbered,
                               std::int64_t count) {
    const std::string rule =
        count == 0 ? std::string("there are no ") + numbered
                   : std::string(numbered) + " are numbered 0 to " + std::to_string(count - 1);
    throw std::out_of_range(where + ": " + rule + ", found " + std::to_string(found));
}

}  // namespace

void refuse(const char* field, std::size_t entry, const std::string& rule, std::int64_t found) {
    throw std::invalid_argument(at_entry(field, entry) + ": " + rule + ", found " +
                                std::to_string(found));
}

void require_count(const char* field, std::size_t found) {
    if (found <= static_cast<std::size_t>(kMostEntries)) return;
    throw std::length_error(std::string("field ") + field + ": at most " +
                            std::to_string(kMostEntries) + " entries are taken, found " +
                            std::to_string(found));
}

void require_length(const char* field, std::size_t found, const char* each, std::size_t count) {
    if (found == count) return;
    throw std::invalid_argument(std::string("field ") + field + ": one entry a " + each +
                                " is needed, found " + std::to_string(found) + " for " +
                                std::to_string(count));
}

void require_index(const char* field, std::int64_t found, const char* numbered,
                   std::int64_t count) {
    if (found >= 0 && found < count) return;
    refuse_index(std::string("field ") + field, found, numbered, count);
}

void require_indices(const char* field, std::span<const std::int32_t> found, const char* numbered,
                     std::int64_t count) {
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] >= 0 && found[i] < count) continue;
        refuse_index(at_entry(field, i), found[i], numbered, count);
    }
}

void require_at_least(const char* field, std::span<const std::int64_t> found, std::int64_t least) {
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] >= least) continue;
        refuse(field, i, "at least " + std::to_string(least) + " is needed", found[i]);
    }
}

void require_offsets(const char* field, std::span<const std::int64_t> offsets, std::size_t entries,
                     std::int64_t least) {
    if (offsets.empty() || offsets.front() != 0) {
        throw std::invalid_argument(std::string("field ") + field + ": it begins with 0, found " +
                                    (offsets.empty() ? "nothing" : std::to_string(offsets[0])));
    }
    for (std::size_t i = 1; i < offsets.size(); ++i) {
        // A subtraction of untrusted offsets may overflow, so the check only compares.
        if (offsets[i] >= offsets[i - 1] && offsets[i] >= least &&
            offsets[i] - least >= offsets[i - 1]) {
            continue;
        }
        refuse(field, i,
               "at least " + std::to_string(least) + " above " + std::to_string(offsets[i - 1]) +
                   ", the entry before, is needed",
               offsets[i]);
    }
    if (offsets.back() != static_cast<std::int64_t>(entries)) {
        refuse(field, offsets.size() - 1,
               "the last is the number of entries, " + std::to_string(entries), offsets.back());
    }
}

std::int64_t require_total(const char* field, std::span<const std::int64_t> found,
                           std::int64_t total) {
    require_at_least(field, found, 0);
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] > kMostBytes - total) {
            throw std::overflow_error(at_entry(field, i) + ": all bytes together are at most " +
                                      std::to_string(kMostBytes) + ", found " +
                                      std::to_string(found[i]) + " on top of " +
                                      std::to_string(total));
        }
        total += found[i];
    }
    return total;
}

void require_block_conditions(std::span<const std::int64_t> modulus,
                              std::span<const std::int64_t> residue,
                              std::span<const std::int64_t> pinned) {
    require_length("residue", residue.size(), "block", modulus.size());
    require_length("pinned", pinned.size(), "block", modulus.size());
    for (std::size_t b = 0; b < modulus.size(); ++b) {
        if (modulus[b] < 1 || !std::has_single_bit(static_cast<std::uint64_t>(modulus[b]))) {
            refuse("modulus", b, "a power of two is needed", modulus[b]);
        }
        if (residue[b] < 0 || residue[b] >= modulus[b]) {
            refuse("residue", b, "0 to " + std::to_string(modulus[b] - 1) + " is needed",
                   residue[b]);
        }
        if (pinned[b] != -1 && (pinned[b] < 0 || pinned[b] % modulus[b] != residue[b])) {
            refuse("pinned", b,
                   "-1, or an offset that is " + std::to_string(residue[b]) + " modulo " +
                       std::to_string(modulus[b]) + ", is needed",
                   pinned[b]);
        }
    }
}

void require_table(const char* table, std::int64_t rows, std::int64_t columns,
                   std::int64_t entry_bits) {
    __extension__ using Wide = unsigned __int128;
    const Wide bytes = Wide(rows) * Wide(columns) * Wide(entry_bits) / 8;
    if (bytes <= Wide(kMostTableBytes)) return;
    // The message counts in GiB because the number of bytes may exceed 64 bits.
    throw std::length_error(
        std::string(table) + ": " + std::to_string(rows) + " times " + std::to_string(columns) +
        " entries would take " + std::to_string(static_cast<std::uint64_t>(bytes >> 30)) +
        " GiB, and at most " + std::to_string(kMostTableBytes >> 30) + " are taken");
}

}  // namespace gapless
