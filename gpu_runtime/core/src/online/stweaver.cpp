#include "online/stweaver.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "device/sizes.h"
#include "online/online_allocators.h"

namespace gapless::runtime {

Stweaver::Stweaver(DeviceMemory& memory)
    : memory_(memory),
      matcher_(std::make_unique<StweaverMatcher>(profile_)),
      cache_(memory, PytorchSettings(), &account_),
      apart_(memory, PytorchSettings(), &account_),
      pending_(memory) {}

void Stweaver::adopt(StweaverProfile profile) {
    profile.validate();
    if (unused_blocks_.size() < blocks_.size()) {
        throw std::logic_error("a pool of which no block is in use is needed");
    }
    // A GPU gives plain memory in these multiples.
    profile.pool_bytes = round_up(profile.pool_bytes, kMadeMultiple);
    auto matcher = std::make_unique<StweaverMatcher>(profile);
    if (pool_ != 0) release_pool();
    profile_ = std::move(profile);
    matcher_ = std::move(matcher);
    matcher_->enter(visit_);
}

bool Stweaver::adopt_for_less(StweaverProfile profile) {
    std::size_t kept = 0;
    for (const OnlineSegment& segment : segments()) {
        const bool is_idle = std::ranges::all_of(segment.blocks, [](const OnlineBlock& block) {
            return block.state == OnlineState::free;
        });
        if (!is_idle) kept += segment.bytes;
    }
    const std::size_t reserved = account_.figures().reserved_bytes;
    // Nothing is reserved before the first request.
    if (reserved > 0 && kept + round_up(profile.pool_bytes, kMadeMultiple) > reserved) return false;
    adopt(std::move(profile));
    try {
        give_back();
        reserve_pool();
    } catch (...) {
        adopt({});
        throw;
    }
    return true;
}

void Stweaver::reserve_pool() {
    if (pool_ != 0 || profile_.pool_bytes == 0) return;
    const std::size_t bytes = profile_.pool_bytes;
    try {
        pool_ = memory_.allocate_plain(bytes);
    } catch (const OutOfDeviceMemory&) {
        cache_.give_back();
        apart_.give_back();
        pool_ = memory_.allocate_plain(bytes);
    }
    account_.reserved(bytes);
    account_.add_segment();
    account_.add_free(bytes);
    free_.put(0, bytes);
}

void Stweaver::release_pool() {
    // A stream may still use the freed bytes.
    memory_.synchronize();
    memory_.release_plain(pool_);
    free_.take(0, profile_.pool_bytes);
    account_.remove_free(profile_.pool_bytes);
    account_.remove_segment();
    account_.released(profile_.pool_bytes);
    pool_ = 0;
}

Address Stweaver::allocate(std::size_t bytes, Stream stream) {
    if (bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    pending_.collect([this](Block& block) { come_back(block); });
    reserve_pool();
    const std::size_t peak = account_.figures().requested_peak;
    const Address address = serve(bytes, stream);
    if (account_.figures().requested_peak > peak) counts_.static_at_peak = static_bytes_;
    if (is_recording_) write_down(RecordedAction::allocate, address, bytes, stream);
    return address;
}

void Stweaver::write_down(RecordedAction action, Address address, std::size_t bytes,
                          Stream stream) {
    rows_.action.push_back(static_cast<std::uint8_t>(action));
    rows_.address.push_back(address);
    rows_.bytes.push_back(static_cast<std::int64_t>(bytes));
    rows_.stream.push_back(stream);
    rows_.visit.push_back(visit_);
}

Address Stweaver::serve(std::size_t requested, Stream stream) {
    const bool is_matched = pool_ != 0 && !is_apart_ && stream == profile_.stream && requested > 0;
    const auto [place, first, last] =
        is_matched ? matcher_->match(requested) : StweaverMatcher::Match{};
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    if (place != nullptr) {
        if (free_.take(place->offset, place->offset + bytes)) {
            ++counts_.planned;
            static_bytes_ += requested;
            place->is_held = true;
            return hand_out(place->offset, bytes, requested, place);
        }
        ++counts_.displaced;
    } else if (const std::optional<std::size_t> fit = free_.best_fit(first, last, bytes)) {
        ++counts_.reused;
        free_.take(*fit, *fit + bytes);
        return hand_out(*fit, bytes, requested, nullptr);
    } else {
        ++counts_.cached;
    }
    PytorchCaching& cache = is_apart_ ? apart_ : cache_;
    try {
        return cache.allocate(requested, stream);
    } catch (const OutOfDeviceMemory&) {
    }
    give_back();
    return cache.allocate(requested, stream);
}

Address Stweaver::hand_out(std::size_t offset, std::size_t bytes, std::size_t requested,
                           StweaverMatcher::Place* place) {
    Block* block;
    if (unused_blocks_.empty()) {
        block = &blocks_.emplace_back();
    } else {
        block = unused_blocks_.back();
        unused_blocks_.pop_back();
    }
    block->address = pool_ + offset;
    block->bytes = bytes;
    block->requested = requested;
    block->place = place;
    block->is_used = true;
    live_.insert(block->address, block);
    account_.remove_free(bytes);
    account_.allocated(requested, bytes);
    return block->address;
}

bool Stweaver::free(Address address) {
    if (is_recording_) write_down(RecordedAction::free_completed, address, 0, 0);
    if (!is_in_pool(address)) return cache_.free(address) || apart_.free(address);
    Block* const block = live_.find(address);
    if (block == nullptr) return false;
    live_.erase(address);
    if (block->place != nullptr) static_bytes_ -= block->requested;
    account_.freed(block->requested, block->bytes);
    if (block->used_on.empty()) {
        come_back(*block);
    } else {
        pending_.add(*block, block->used_on);
        block->used_on.clear();
    }
    return true;
}

bool Stweaver::use_on(Address address, Stream stream) {
    if (!is_in_pool(address)) {
        return cache_.use_on(address, stream) || apart_.use_on(address, stream);
    }
    Block* const block = live_.find(address);
    if (block == nullptr) return false;
    use_until_free(block->used_on, profile_.stream, stream);
    return true;
}

void Stweaver::settle() {
    pending_.collect([this](Block& block) { come_back(block); });
    cache_.settle();
    apart_.settle();
}

void Stweaver::give_back() {
    pending_.await_all([this](Block& block) { come_back(block); });
    const bool is_idle = unused_blocks_.size() == blocks_.size();
    if (pool_ != 0 && is_idle && !memory_.is_captured(profile_.stream)) release_pool();
    cache_.give_back();
    apart_.give_back();
}

void Stweaver::come_back(Block& block) {
    const std::size_t offset = block.address - pool_;
    free_.put(offset, offset + block.bytes);
    if (block.place != nullptr) block.place->is_held = false;
    block.is_used = false;
    unused_blocks_.push_back(&block);
    account_.finished(block.requested, block.bytes);
    account_.add_free(block.bytes);
}

std::vector<OnlineSegment> Stweaver::segments() const {
    std::vector<OnlineSegment> found = cache_.segments();
    std::ranges::move(apart_.segments(), std::back_inserter(found));
    std::ranges::sort(found, {}, &OnlineSegment::address);
    if (pool_ == 0) return found;
    OnlineSegment pool{pool_, profile_.pool_bytes, profile_.stream, true, {}};
    for (const Block& block : blocks_) {
        if (!block.is_used) continue;
        const bool is_live = live_.find(block.address) == &block;
        pool.blocks.push_back({block.address, block.bytes, is_live ? block.requested : 0,
                               is_live ? OnlineState::allocated : OnlineState::pending});
    }
    for (const auto& [begin, end] : free_.ranges()) {
        pool.blocks.push_back({pool_ + begin, end - begin, 0, OnlineState::free});
    }
    std::ranges::sort(pool.blocks, {}, &OnlineBlock::address);
    found.push_back(std::move(pool));
    std::ranges::sort(found, {}, &OnlineSegment::address);
    return found;
}

std::optional<LiveBlock> Stweaver::live_block(Address address) const {
    if (!is_in_pool(address)) {
        const std::optional<LiveBlock> found = cache_.live_block(address);
        return found ? found : apart_.live_block(address);
    }
    const Block* const block = live_.find(address);
    if (block == nullptr) return std::nullopt;
    return LiveBlock{block->bytes, block->requested, profile_.stream, block->used_on.size()};
}

OnlineDefinition describe_stweaver() {
    return {.name = "stweaver",
            .summary =
                "Plan a static pool, lend its idle bytes to dynamic requests, and "
                "cache the rest.",
            .source = "Huang et al. 2026, sections 5.2 and 6",
            .parameters = {},
            .make = [](DeviceMemory& memory, const OnlineValues&) -> MadeOnline {
                return std::make_unique<Stweaver>(memory);
            },
            .dictated = ""};
}

}  // namespace gapless::runtime
