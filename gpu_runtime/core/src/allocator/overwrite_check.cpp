#include "allocator/overwrite_check.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "device/free_word.h"

namespace gapless::runtime {

namespace {

// Comparisons whose history is kept for a program that never asks for findings. A guess.
constexpr std::size_t kMostComparisons = std::size_t{1} << 16;

Tenant tenant_of(const Block& block, std::int64_t step) {
    return {.address = block.address,
            .bytes = block.requested,
            .stream = block.stream,
            .request = block.is_in_step ? block.request : -1,
            .step = step};
}

}  // namespace

OverwriteCheck::OverwriteCheck(DeviceMemory& memory)
    : ForwardingMemory(memory), own_stream_(memory.own_stream()) {}

void OverwriteCheck::unmap(Address address, std::size_t bytes) {
    look_last(address, address + bytes, [&] { ForwardingMemory::unmap(address, bytes); });
}

void OverwriteCheck::hide(Address address, std::size_t bytes) {
    std::vector<Past> pasts = cut(address, address + bytes);
    for (Past& past : pasts) {
        past.is_loose = true;  // the stream of this check has not waited for it
        make_wait_for(past, own_stream_);
    }
    compare_stamped(add({.pasts = std::move(pasts), .after = {.stream = own_stream_}}));
}

Address OverwriteCheck::allocate_plain(std::size_t bytes) {
    const Address address = ForwardingMemory::allocate_plain(bytes);
    plain_[address] = bytes;
    stamp_new(address, bytes);
    return address;
}

void OverwriteCheck::release_plain(Address address) {
    const auto plain = plain_.find(address);
    look_last(address, address + plain->second, [&] { ForwardingMemory::release_plain(address); });
    plain_.erase(plain);
}

// Compares bytes before they are unmapped. The heap has waited for all users, so this ends soon.
template <class Release>
void OverwriteCheck::look_last(Address begin, Address end, Release release) {
    std::vector<Past> pasts = cut(begin, end);
    try {
        for (Past& past : pasts) {
            make_wait_for(past, own_stream_);
            past.stream = own_stream_;
            past.is_loose = true;
        }
        compare_stamped(add({.pasts = pasts, .after = {.stream = own_stream_}}));
        const StreamMark compared(*this, own_stream_);
        await(compared.event());
        release();
    } catch (...) {
        for (const Past& past : pasts) free_[past.begin] = past;
        throw;
    }
}

void OverwriteCheck::stamp_new(Address address, std::size_t bytes) noexcept {
    try {
        Past& past = free_[address] = {
            .begin = address, .end = address + bytes, .tenant = {}, .stream = own_stream_};
        stamp(address, bytes, own_stream_, address);
        past.is_stamped = past.is_loose = true;
    } catch (const std::exception&) {
        // The memory is handed out without a comparison.
    }
}

void OverwriteCheck::leave(const Block& block, std::int64_t step) noexcept {
    try {
        Past& past = free_[block.address] = {.begin = block.address,
                                             .end = block.end(),
                                             .tenant = tenant_of(block, step),
                                             .stream = block.stream};
        stamp_freed(block);
        past.is_stamped = true;
    } catch (const std::exception&) {
        // The memory is handed out without a comparison.
    }
}

void OverwriteCheck::stamp_freed(const Block& block) {
    const auto captured = [&](Stream stream) { return is_captured(stream); };
    if (captured(block.stream) || std::ranges::any_of(block.used_on, captured)) {
        throw DeviceCallError("a stamp would become a part of a graph");
    }
    for (const Stream stream : block.used_on) {
        const StreamMark until_now(*this, stream);
        make_wait(block.stream, until_now.event());
    }
    stamp(block.address, block.bytes, block.stream, block.address);
}

void OverwriteCheck::enter(const Block& block, std::int64_t step) noexcept {
    try {
        const Comparison& made =
            add({.pasts = cut(block.address, block.end()), .after = tenant_of(block, step)});
        for (const Past& past : made.pasts) make_wait_for(past, block.stream);
        if (!is_captured(block.stream)) compare_stamped(made);
    } catch (const std::exception&) {
        // The memory is handed out without a comparison.
    }
}

// Runs the comparison that was added last, with one device call for each stretch without a gap.
void OverwriteCheck::compare_stamped(const Comparison& comparison) {
    Address begin = 0, end = 0;
    const auto compare_stretch = [&] {
        if (begin < end) {
            compare(begin, end - begin, comparison.after.stream, next_ - 1, begin);
        }
    };
    for (const Past& past : comparison.pasts) {
        if (!past.is_stamped) continue;
        if (past.begin != end) {
            compare_stretch();
            begin = past.begin;
        }
        end = past.end;
    }
    compare_stretch();
}

void OverwriteCheck::compare_all() {
    for (auto& [begin, past] : free_) {
        if (!past.is_stamped || is_captured(past.stream)) continue;
        past.is_loose = true;
        add({.pasts = {past}, .after = {}});
        compare(past.begin, past.end - past.begin, past.stream, next_ - 1, past.begin);
    }
}

void OverwriteCheck::make_wait_for(const Past& past, Stream stream) {
    if (!past.is_loose || past.stream == stream) return;
    if (is_captured(stream)) return synchronize();
    try {
        const StreamMark until_now(*this, past.stream);
        make_wait(stream, until_now.event());
    } catch (const DeviceCallError&) {
        // If the device refuses the wait, the host waits.
        synchronize();
    }
}

// Returns the first piece that ends behind an address.
std::map<Address, OverwriteCheck::Past>::iterator OverwriteCheck::first_behind(Address begin) {
    const auto next = free_.upper_bound(begin);
    if (next == free_.begin() || std::prev(next)->second.end <= begin) return next;
    return std::prev(next);
}

// Removes and returns the histories of a range; pieces that cross its ends are split.
std::vector<OverwriteCheck::Past> OverwriteCheck::cut(Address begin, Address end) {
    std::vector<Past> parts;
    for (auto next = first_behind(begin); next != free_.end() && next->first < end;) {
        Past part = next->second;
        next = free_.erase(next);
        if (part.begin < begin) {
            Past& before = free_[part.begin] = part;
            part.begin = before.end = begin;
        }
        if (part.end > end) {
            Past& behind = free_[end] = part;
            part.end = behind.begin = end;
        }
        parts.push_back(part);
    }
    return parts;
}

const OverwriteCheck::Comparison& OverwriteCheck::add(Comparison comparison) {
    if (comparisons_.size() == kMostComparisons) comparisons_.pop_front();
    comparisons_.push_back(std::move(comparison));
    ++next_;
    return comparisons_.back();
}

std::vector<Overwrite> OverwriteCheck::take(std::uint64_t comparisons) {
    std::vector<Overwrite> taken;
    const std::uint64_t first = next_ - comparisons_.size();
    for (const Overwritten& found : overwritten()) {
        if (found.comparison >= comparisons || !taken_.insert(found.comparison).second) continue;
        Overwrite& overwrite = taken.emplace_back();
        overwrite.address = found.first;
        overwrite.bytes = found.words * kWordBytes;
        if (found.comparison < first) continue;
        const Comparison& comparison = comparisons_[found.comparison - first];
        overwrite.after = comparison.after;
        for (const Past& past : comparison.pasts) {
            if (past.begin <= found.first && found.first < past.end) overwrite.before = past.tenant;
        }
    }
    while (!comparisons_.empty() && next_ - comparisons_.size() < comparisons) {
        comparisons_.pop_front();
    }
    return taken;
}

}  // namespace gapless::runtime
