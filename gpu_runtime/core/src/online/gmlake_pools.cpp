#include "online/gmlake_pools.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gapless::runtime {

namespace {

bool is_inactive(const GmlakeBlock& block) {
    return std::ranges::all_of(block.parts,
                               [](const GmlakeBlock* part) { return part->holder == nullptr; });
}

}  // namespace

void GmlakeRules::validate(std::size_t page_bytes) const {
    if (chunk_bytes == 0 || chunk_bytes % page_bytes != 0) {
        throw std::invalid_argument("field chunk_bytes: a multiple of the device's " +
                                    std::to_string(page_bytes) + " bytes, found " +
                                    std::to_string(chunk_bytes));
    }
}

GmlakePools::GmlakePools(DeviceMemory& memory, const GmlakeRules& rules, OnlineAccount& account)
    : memory_(memory),
      rules_((rules.validate(memory.page_bytes()), rules)),
      account_(account),
      mapper_(memory),
      stock_(memory, mapper_, account, rules.chunk_bytes),
      retired_(memory, mapper_) {}

GmlakePool& GmlakePools::pool_of(Stream stream) {
    if (last_pool_ == nullptr || last_pool_->stream != stream) {
        last_pool_ = &pools_.try_emplace(stream, stream, &nodes_).first->second;
    }
    return *last_pool_;
}

GmlakeBlock* GmlakePools::find_exact(const GmlakePool& pool, std::size_t bytes) const {
    const auto primitive = pool.inactive.lower_bound({bytes, 0, nullptr});
    if (primitive != pool.inactive.end() && primitive->bytes == bytes) return primitive->block;
    for (auto next = pool.stitched.lower_bound({bytes, 0, nullptr});
         next != pool.stitched.end() && next->bytes == bytes; ++next) {
        if (is_inactive(*next->block)) return next->block;
    }
    return nullptr;
}

Address GmlakePools::map_range(std::span<const Pages> chunks) {
    const std::size_t bytes = chunks.size() * rules_.chunk_bytes;
    const Address address = memory_.reserve_range(bytes);
    try {
        mapper_.map(address, chunks, rules_.chunk_bytes);
    } catch (...) {
        retired_.add_empty(address, bytes);
        throw;
    }
    return address;
}

GmlakeBlock& GmlakePools::alloc(GmlakePool& pool, std::size_t bytes) {
    std::vector<Pages> chunks;
    try {
        while (chunks.size() * rules_.chunk_bytes < bytes) chunks.push_back(stock_.obtain());
        GmlakeBlock& block = add_primitive(pool, map_range(chunks), chunks);
        account_.add_free(block.bytes);
        account_.add_segment();
        return block;
    } catch (...) {
        for (const Pages each : chunks) stock_.give(each);
        throw;
    }
}

GmlakeBlock& GmlakePools::split(GmlakeBlock& whole, std::size_t bytes) {
    GmlakePool& pool = *whole.pool;
    const std::span<const Pages> chunks(whole.chunks);
    const std::size_t first_chunks = bytes / rules_.chunk_bytes;
    const Address first = map_range(chunks.first(first_chunks));
    Address second;
    try {
        second = map_range(chunks.subspan(first_chunks));
    } catch (...) {
        retired_.add(first, bytes, pool.stream);
        throw;
    }
    GmlakeBlock& head = add_primitive(pool, first, chunks.first(first_chunks));
    GmlakeBlock& tail = add_primitive(pool, second, chunks.subspan(first_chunks));
    pool.inactive.erase(whole.place);
    --primitive_count_;
    for (GmlakeBlock* const user : whole.stitched) {
        *std::ranges::find(user->parts, &whole) = &head;
        user->parts.push_back(&tail);
        head.stitched.push_back(user);
        tail.stitched.push_back(user);
    }
    whole.stitched.clear();
    whole.chunks.clear();
    whole.number = next_number_++;
    account_.add_segment();
    add_stitched(whole, {&head, &tail});
    return head;
}

GmlakeBlock& GmlakePools::stitch(const std::vector<GmlakeBlock*>& parts) {
    std::vector<Pages> chunks;
    for (const GmlakeBlock* const part : parts) {
        chunks.insert(chunks.end(), part->chunks.begin(), part->chunks.end());
    }
    const Address address = map_range(chunks);
    GmlakeBlock& block =
        new_block(*parts.front()->pool, address, chunks.size() * rules_.chunk_bytes);
    add_stitched(block, parts);
    return block;
}

GmlakeBlock& GmlakePools::new_block(GmlakePool& pool, Address address, std::size_t bytes) {
    if (unused_blocks_.empty()) unused_blocks_.push_back(&blocks_.emplace_back());
    GmlakeBlock& block = *unused_blocks_.back();
    unused_blocks_.pop_back();
    block.address = address;
    block.bytes = bytes;
    block.number = next_number_++;
    block.pool = &pool;
    return block;
}

GmlakeBlock& GmlakePools::add_primitive(GmlakePool& pool, Address address,
                                        std::span<const Pages> chunks) {
    GmlakeBlock& block = new_block(pool, address, chunks.size() * rules_.chunk_bytes);
    block.chunks.assign(chunks.begin(), chunks.end());
    block.parts = {&block};
    block.place = pool.inactive.insert({block.bytes, block.number, &block}).first;
    ++primitive_count_;
    return block;
}

void GmlakePools::add_stitched(GmlakeBlock& block, std::vector<GmlakeBlock*> parts) {
    make_room(block.bytes);
    block.parts = std::move(parts);
    for (GmlakeBlock* const part : block.parts) part->stitched.push_back(&block);
    block.place = block.pool->stitched.insert({block.bytes, block.number, &block}).first;
    block.turn = by_use_.insert(by_use_.end(), &block);
    stitched_bytes_ += block.bytes;
}

void GmlakePools::make_room(std::size_t bytes) {
    for (auto next = by_use_.begin(); next != by_use_.end();) {
        const bool is_room = by_use_.size() < rules_.most_stitched &&
                             stitched_bytes_ + bytes <= rules_.most_stitched_bytes;
        if (is_room) return;
        GmlakeBlock& block = **next++;
        if (is_inactive(block)) drop_stitched(block);
    }
}

void GmlakePools::drop_stitched(GmlakeBlock& block) {
    for (GmlakeBlock* const part : block.parts) std::erase(part->stitched, &block);
    block.pool->stitched.erase(block.place);
    by_use_.erase(block.turn);
    stitched_bytes_ -= block.bytes;
    retired_.add(block.address, block.bytes, block.pool->stream);
    recycle(block);
}

void GmlakePools::recycle(GmlakeBlock& block) {
    block.chunks.clear();
    block.parts.clear();
    unused_blocks_.push_back(&block);
}

void GmlakePools::hand_out(GmlakeBlock& block) {
    block.holder = &block;
    for (GmlakeBlock* const part : block.parts) {
        part->holder = &block;
        part->pool->inactive.erase(part->place);
        account_.remove_segment();
    }
    account_.add_segment();
    if (!block.is_primitive()) by_use_.splice(by_use_.end(), by_use_, block.turn);
    account_.remove_free(block.bytes);
}

void GmlakePools::take_back(GmlakeBlock& block) {
    block.holder = nullptr;
    for (GmlakeBlock* const part : block.parts) {
        part->holder = nullptr;
        part->place = part->pool->inactive.insert({part->bytes, part->number, part}).first;
        account_.add_segment();
    }
    account_.remove_segment();
    account_.add_free(block.bytes);
}

void GmlakePools::release_inactive() {
    std::vector<GmlakePool*> leaving;
    for (auto& [stream, pool] : pools_) {
        const bool is_empty = pool.inactive.empty() && pool.stitched.empty();
        if (!is_empty && !memory_.is_captured(stream)) leaving.push_back(&pool);
    }
    if (!leaving.empty() || !retired_.empty()) memory_.synchronize();
    for (GmlakePool* const pool : leaving) release_pool(*pool);
    retired_.release_all();
    stock_.release_kept();
}

void GmlakePools::release_pool(GmlakePool& pool) {
    for (auto next = pool.stitched.begin(); next != pool.stitched.end();) {
        GmlakeBlock& block = *(next++)->block;
        if (block.holder == nullptr) drop_stitched(block);
    }
    // Chunks can be released only when no address maps them any more.
    retired_.release_all();
    while (!pool.inactive.empty()) {
        GmlakeBlock& block = *pool.inactive.begin()->block;
        memory_.unmap(block.address, block.bytes);
        retired_.add_empty(block.address, block.bytes);
        pool.inactive.erase(block.place);
        --primitive_count_;
        account_.remove_segment();
        account_.remove_free(block.bytes);
        // The stock counts these bytes as free again.
        for (const Pages each : block.chunks) stock_.give(each);
        recycle(block);
    }
}

std::vector<const GmlakeBlock*> GmlakePools::holders() const {
    std::vector<const GmlakeBlock*> found;
    for (const GmlakeBlock& block : blocks_) {
        if (block.holder == &block || (block.is_primitive() && block.holder == nullptr)) {
            found.push_back(&block);
        }
    }
    return found;
}

}  // namespace gapless::runtime
