#include "online/pytorch_allocator.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

std::size_t allowed_share(DeviceMemory& memory, const PytorchSettings& settings) {
    settings.validate();
    if (settings.per_process_memory_fraction == 1) return memory.total_bytes();
    return static_cast<std::size_t>(settings.per_process_memory_fraction *
                                    static_cast<double>(memory.total_bytes()));
}

}  // namespace

PytorchAllocator::PytorchAllocator(DeviceMemory& memory, const PytorchSettings& settings,
                                   OnlineAccount* whole)
    : OnlineAllocator(whole),
      memory_(memory),
      settings_(settings),
      allowed_bytes_(allowed_share(memory, settings)),
      pending_(memory) {}

Address PytorchAllocator::allocate(std::size_t requested, Stream stream) {
    if (requested > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    settle();
    const std::size_t bytes = settings_.rounded(requested);
    StreamPool& pool = pool_of(stream, bytes);
    PoolBlock& block = *free_block(pool, bytes);
    take(block);
    block.state = OnlineState::allocated;
    if (is_split(block, bytes)) put(*split(block, bytes), OnlineState::free);
    block.requested = requested;
    live_.insert(block.address, &block);
    account_.allocated(requested, block.bytes);
    return block.address;
}

PoolBlock* PytorchAllocator::free_block(StreamPool& pool, std::size_t bytes) {
    if (pool.id == kCommonPool) ++searches_[pool.is_small ? 0 : 1];
    if (PoolBlock* const found = find(pool, bytes)) return found;
    collect_garbage();
    try {
        return obtain(pool, bytes);
    } catch (const OutOfDeviceMemory&) {
    }
    if (make_room(pool, bytes)) {
        try {
            return obtain(pool, bytes);
        } catch (const OutOfDeviceMemory&) {
        }
    }
    if (pool.id == kCommonPool) give_back();
    return obtain(pool, bytes);
}

bool PytorchAllocator::free(Address address) {
    PoolBlock* const block = live_.find(address);
    if (block == nullptr) return false;
    live_.erase(address);
    account_.freed(block->requested, block->bytes);
    if (block->used_on.empty()) {
        come_back(*block);
    } else {
        block->state = OnlineState::pending;
        pending_.add(*block, block->used_on);
        block->used_on.clear();
    }
    return true;
}

bool PytorchAllocator::use_on(Address address, Stream stream) {
    PoolBlock* const block = live_.find(address);
    if (block == nullptr) return false;
    use_until_free(block->used_on, block->pool->stream, stream);
    return true;
}

void PytorchAllocator::settle() {
    pending_.collect([this](PoolBlock& block) { come_back(block); });
}

void PytorchAllocator::give_back() {
    pending_.await_all([this](PoolBlock& block) { come_back(block); });
    std::set<PoolId> pools = ended_;
    pools.insert(kCommonPool);
    release_idle(pools);
}

void PytorchAllocator::enter_pool(PoolId pool) {
    if (pool_ != pool) last_pools_ = nullptr;
    pool_ = pool;
    ended_.erase(pool);
}

void PytorchAllocator::end_pool(PoolId pool) {
    if (pool == kCommonPool) {
        throw std::invalid_argument("a private pool ends, from 1 on, found 0, the common pool");
    }
    settle();
    ended_.insert(pool);
    release_idle({pool});
}

void PytorchAllocator::come_back(PoolBlock& block) {
    account_.finished(block.requested, block.bytes);
    put(block, OnlineState::free);
}

std::vector<PoolBlock*> PytorchAllocator::idle_blocks(std::size_t kind,
                                                      const std::set<PoolId>& pools) const {
    std::vector<PoolBlock*> idle;
    for (const auto& [place, found] : pools_) {
        const StreamPool& pool = found[kind];
        if (pool.free.empty() || !pools.contains(pool.id) || memory_.is_captured(pool.stream)) {
            continue;
        }
        for (const ListedBlock& listed : pool.free) idle.push_back(listed.block);
    }
    return idle;
}

bool PytorchAllocator::may_serve(const PoolBlock& block, std::size_t bytes) const {
    if (bytes < settings_.max_split_bytes) return block.bytes < settings_.max_split_bytes;
    return block.bytes - bytes < settings_.max_non_split_rounding_bytes;
}

void PytorchAllocator::require_allowed(std::size_t bytes) const {
    const std::size_t reserved = account_.figures().reserved_bytes;
    if (bytes > allowed_bytes_ - std::min(allowed_bytes_, reserved)) {
        throw OutOfDeviceMemory(std::to_string(allowed_bytes_) + " bytes may be used, of which " +
                                std::to_string(reserved) + " are");
    }
}

StreamPool& PytorchAllocator::pool_of(Stream stream, std::size_t bytes) {
    if (last_pools_ == nullptr || last_stream_ != stream) {
        const std::pair place{pool_, stream};
        auto found = pools_.find(place);
        if (found == pools_.end()) {
            found = pools_
                        .try_emplace(place, std::array{StreamPool(pool_, stream, true, &nodes_),
                                                       StreamPool(pool_, stream, false, &nodes_)})
                        .first;
        }
        last_pools_ = &found->second;
        last_stream_ = stream;
    }
    return (*last_pools_)[bytes <= kSmallBytes ? 0 : 1];
}

PoolSegment& PytorchAllocator::add_segment(StreamPool& pool, Address address, std::size_t bytes) {
    PoolSegment& segment = segments_[address];
    PoolBlock* const block = new_block();
    segment.address = block->address = address;
    segment.bytes = block->bytes = bytes;
    segment.first = block;
    block->segment = &segment;
    block->pool = &pool;
    return segment;
}

void PytorchAllocator::drop_segment(PoolSegment& segment) {
    unused_blocks_.push_back(segment.first);
    segments_.erase(segment.address);
}

PoolBlock* PytorchAllocator::new_block() {
    if (unused_blocks_.empty()) return &blocks_.emplace_back();
    PoolBlock* const block = unused_blocks_.back();
    unused_blocks_.pop_back();
    block->before = block->behind = nullptr;
    return block;
}

PoolBlock* PytorchAllocator::split(PoolBlock& block, std::size_t bytes) {
    PoolBlock* const rest = new_block();
    rest->address = block.address + bytes;
    rest->bytes = block.bytes - bytes;
    rest->pool = block.pool;
    rest->segment = block.segment;
    rest->state = block.state;
    rest->before = &block;
    rest->behind = block.behind;
    if (rest->behind != nullptr) rest->behind->before = rest;
    block.behind = rest;
    block.bytes = bytes;
    return rest;
}

void PytorchAllocator::absorb(PoolBlock& block) {
    PoolBlock* const behind = block.behind;
    block.bytes += behind->bytes;
    block.behind = behind->behind;
    if (block.behind != nullptr) block.behind->before = &block;
    unused_blocks_.push_back(behind);
}

BlockList& PytorchAllocator::list_of(const PoolBlock& block) const {
    return block.state == OnlineState::free ? block.pool->free : block.pool->unmapped;
}

PoolBlock* PytorchAllocator::put(PoolBlock& block, OnlineState state) {
    const bool is_free = state == OnlineState::free;
    if (is_free) account_.add_free(block.bytes);
    block.state = state;
    PoolBlock* whole = &block;
    BlockList& list = list_of(block);
    if (block.behind != nullptr && block.behind->state == state) {
        list.erase(block.behind->place);
        absorb(block);
    }
    if (block.before != nullptr && block.before->state == state) {
        whole = block.before;
        list.erase(whole->place);
        absorb(*whole);
    }
    whole->listed_at = searches_[whole->pool->is_small ? 0 : 1];
    whole->place = list.insert({is_free ? whole->bytes : 0, whole->address, whole}).first;
    return whole;
}

void PytorchAllocator::take(PoolBlock& block) {
    if (block.state == OnlineState::free) account_.remove_free(block.bytes);
    list_of(block).erase(block.place);
}

std::vector<OnlineSegment> PytorchAllocator::segments() const {
    std::vector<OnlineSegment> found;
    for (const auto& [address, segment] : segments_) {
        OnlineSegment& listed = found.emplace_back();
        listed.address = address;
        listed.bytes = segment.bytes;
        listed.stream = segment.first->pool->stream;
        listed.pool = segment.first->pool->id;
        listed.is_plain = segment.pages.empty();
        for (const PoolBlock* block = segment.first; block != nullptr; block = block->behind) {
            const bool is_allocated = block->state == OnlineState::allocated;
            listed.blocks.push_back(
                {block->address, block->bytes, is_allocated ? block->requested : 0, block->state});
        }
    }
    return found;
}

std::optional<LiveBlock> PytorchAllocator::live_block(Address address) const {
    const PoolBlock* const block = live_.find(address);
    if (block == nullptr) return std::nullopt;
    return LiveBlock{block->bytes, block->requested, block->pool->stream, block->used_on.size()};
}

}  // namespace gapless::runtime
