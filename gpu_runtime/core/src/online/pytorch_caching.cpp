#include "online/pytorch_caching.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <variant>

#include "device/sizes.h"
#include "online/online_allocators.h"

namespace gapless::runtime {

namespace {

bool is_whole(const PoolBlock& block) { return block.before == nullptr && block.behind == nullptr; }

}  // namespace

PoolBlock* PytorchCaching::find(StreamPool& pool, std::size_t bytes) const {
    const auto fit = pool.free.lower_bound({bytes, 0, nullptr});
    if (fit == pool.free.end() || !may_serve(*fit->block, bytes)) return nullptr;
    return fit->block;
}

bool PytorchCaching::is_split(const PoolBlock& block, std::size_t bytes) const {
    const std::size_t rest = block.bytes - bytes;
    if (block.pool->is_small) return rest >= kBlockAlignment;
    return bytes < settings_.max_split_bytes && rest > kSmallBytes;
}

PoolBlock* PytorchCaching::obtain(StreamPool& pool, std::size_t bytes) {
    const std::size_t segment_bytes = settings_.segment_for(bytes);
    require_allowed(segment_bytes);
    const Address address = memory_.allocate_plain(segment_bytes);
    account_.reserved(segment_bytes);
    account_.add_segment();
    return put(*add_segment(pool, address, segment_bytes).first, OnlineState::free);
}

// Releases blocks that are too large to be split: one that is large enough for the request, or else
// the largest ones. Any other block that is large enough would have served the request.
bool PytorchCaching::make_room(StreamPool& pool, std::size_t bytes) {
    if (settings_.max_split_bytes == PytorchSettings::kUnlimited) return false;
    if (memory_.is_captured(pool.stream)) return false;
    const auto fit = pool.free.lower_bound({bytes, 0, nullptr});
    if (fit != pool.free.end()) {
        release({fit->block});
        return true;
    }
    std::vector<PoolBlock*> blocks;
    std::size_t released = 0;
    for (auto block = pool.free.rbegin();
         block != pool.free.rend() && released < bytes && block->bytes >= settings_.max_split_bytes;
         ++block) {
        blocks.push_back(block->block);
        released += block->bytes;
    }
    release(blocks);
    return released >= bytes;
}

// Releases the idle segments that were unused for the most searches. Each round takes those of at
// least average age.
void PytorchCaching::collect_garbage() {
    if (settings_.garbage_collection_threshold == 0) return;
    const auto limit = static_cast<std::size_t>(settings_.garbage_collection_threshold *
                                                static_cast<double>(allowed_bytes_));
    const std::size_t reserved = account_.figures().reserved_bytes;
    if (reserved <= limit) return;
    const std::size_t wanted = reserved - limit;
    std::vector<PoolBlock*> idle = idle_blocks(1, {kCommonPool}), leaving;
    std::erase_if(idle, [](const PoolBlock* block) { return !is_whole(*block); });
    const auto age = [&](const PoolBlock* block) { return searches_[1] - block->listed_at; };
    std::uint64_t ages = 0;
    for (const PoolBlock* const block : idle) ages += age(block);
    for (std::size_t released = 0; released < wanted && !idle.empty();) {
        const double average = static_cast<double>(ages) / static_cast<double>(idle.size());
        const auto is_old = [&](const PoolBlock* block) {
            return static_cast<double>(age(block)) >= average;
        };
        const auto young = std::stable_partition(idle.begin(), idle.end(), is_old);
        if (young == idle.begin()) break;
        for (auto block = idle.begin(); block != young; ++block) {
            leaving.push_back(*block);
            released += (*block)->bytes;
            ages -= age(*block);
        }
        idle.erase(idle.begin(), young);
    }
    release(leaving);
}

void PytorchCaching::release_idle(const std::set<PoolId>& pools) {
    std::vector<PoolBlock*> idle = idle_blocks(1, pools);
    const std::vector<PoolBlock*> small = idle_blocks(0, pools);
    idle.insert(idle.end(), small.begin(), small.end());
    std::erase_if(idle, [](const PoolBlock* block) { return !is_whole(*block); });
    release(idle);
}

void PytorchCaching::release(const std::vector<PoolBlock*>& blocks) {
    if (blocks.empty()) return;
    // A stream may still use freed blocks. A driver also waits when it releases memory.
    memory_.synchronize();
    for (PoolBlock* const block : blocks) {
        memory_.release_plain(block->address);
        account_.released(block->bytes);
        account_.remove_segment();
        take(*block);
        drop_segment(*block->segment);
    }
}

OnlineDefinition describe_pytorch_caching() {
    return {.name = "pytorch-caching",
            .summary = "PyTorch's default allocator, with segments of plain memory.",
            .source = "PyTorch's documentation of its CUDA allocator",
            .parameters = {pytorch_settings_parameter()},
            .make = [](DeviceMemory& memory, const OnlineValues& values) -> MadeOnline {
                return std::make_unique<PytorchCaching>(memory,
                                                        std::get<PytorchSettings>(values.at(0)));
            },
            .dictated = "plain"};
}

}  // namespace gapless::runtime
