#include "online/gmlake.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "device/sizes.h"
#include "online/online_allocators.h"

namespace gapless::runtime {

Gmlake::Gmlake(DeviceMemory& memory, const GmlakeRules& rules)
    : rules_(rules),
      small_(memory, PytorchSettings(), &account_),
      pools_(memory, rules, account_),
      pending_(memory) {}

Address Gmlake::allocate(std::size_t bytes, Stream stream) {
    if (bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    settle();
    try {
        return serve(bytes, stream);
    } catch (const OutOfDeviceMemory&) {
    }
    give_back();
    try {
        return serve(bytes, stream);
    } catch (const OutOfDeviceMemory&) {
        ++states_.out_of_memory;
        throw;
    }
}

Address Gmlake::serve(std::size_t requested, Stream stream) {
    if (requested < rules_.chunk_bytes) return small_.allocate(requested, stream);
    GmlakeBlock& block = best_fit(pools_.pool_of(stream), round_up(requested, rules_.chunk_bytes));
    pools_.hand_out(block);
    block.requested = requested;
    live_.insert(block.address, &block);
    account_.allocated(requested, block.bytes);
    return block.address;
}

GmlakeBlock& Gmlake::best_fit(GmlakePool& pool, std::size_t bytes) {
    if (GmlakeBlock* const exact = pools_.find_exact(pool, bytes)) {
        ++states_.exact;
        return *exact;
    }
    if (GmlakeBlock* const larger = find_larger(pool, bytes)) {
        const bool is_split =
            !rules_.limits_blocks || larger->bytes >= rules_.fragmentation_limit_bytes;
        GmlakeBlock& found = is_split ? pools_.split(*larger, bytes) : *larger;
        ++(is_split ? states_.single : states_.whole);
        return found;
    }
    return gather(pool, bytes);
}

GmlakeBlock* Gmlake::find_larger(const GmlakePool& pool, std::size_t bytes) const {
    const auto found = pool.inactive.lower_bound({bytes, 0, nullptr});
    return found == pool.inactive.end() ? nullptr : found->block;
}

// Returns a block of `bytes` when every inactive primitive block is smaller. Stitches the largest
// of these, and a new block if they hold too few bytes. Nothing is stitched for requests below the
// fragmentation limit or, with `limits_blocks`, from blocks below it.
GmlakeBlock& Gmlake::gather(GmlakePool& pool, std::size_t bytes) {
    std::vector<GmlakeBlock*> parts;
    std::size_t found = 0;
    for (auto next = pool.inactive.rbegin(); next != pool.inactive.rend() && found < bytes;
         ++next) {
        const std::size_t limited = rules_.limits_blocks ? next->bytes : bytes;
        if (limited < rules_.fragmentation_limit_bytes) break;
        parts.push_back(next->block);
        found += next->bytes;
    }
    if (found < bytes) {
        GmlakeBlock& made = pools_.alloc(pool, bytes - found);
        parts.push_back(&made);
        GmlakeBlock& block = parts.size() == 1 ? made : pools_.stitch(parts);
        ++states_.insufficient;
        return block;
    }
    if (found > bytes) {
        GmlakeBlock& last = *parts.back();
        parts.back() = &pools_.split(last, last.bytes - (found - bytes));
    }
    GmlakeBlock& block = pools_.stitch(parts);
    ++states_.multiple;
    return block;
}

bool Gmlake::free(Address address) {
    GmlakeBlock* const block = live_.find(address);
    if (block == nullptr) return small_.free(address);
    live_.erase(address);
    account_.freed(block->requested, block->bytes);
    if (block->used_on.empty()) {
        come_back(*block);
    } else {
        pending_.add(*block, block->used_on);
        block->used_on.clear();
    }
    return true;
}

bool Gmlake::use_on(Address address, Stream stream) {
    GmlakeBlock* const block = live_.find(address);
    if (block == nullptr) return small_.use_on(address, stream);
    use_until_free(block->used_on, block->pool->stream, stream);
    return true;
}

void Gmlake::settle() {
    pending_.collect([this](GmlakeBlock& block) { come_back(block); });
    pools_.collect();
    small_.settle();
}

void Gmlake::give_back() {
    pending_.await_all([this](GmlakeBlock& block) { come_back(block); });
    pools_.release_inactive();
    small_.give_back();
}

void Gmlake::come_back(GmlakeBlock& block) {
    account_.finished(block.requested, block.bytes);
    pools_.take_back(block);
}

std::vector<OnlineSegment> Gmlake::segments() const {
    std::vector<OnlineSegment> found = small_.segments();
    for (const GmlakeBlock* const block : pools_.holders()) {
        const bool is_live = live_.find(block->address) == block;
        const OnlineState state = is_live                    ? OnlineState::allocated
                                  : block->holder == nullptr ? OnlineState::free
                                                             : OnlineState::pending;
        const std::size_t requested = is_live ? block->requested : 0;
        found.push_back({block->address,
                         block->bytes,
                         block->pool->stream,
                         false,
                         {{block->address, block->bytes, requested, state}}});
    }
    std::ranges::sort(found, {}, &OnlineSegment::address);
    return found;
}

std::optional<LiveBlock> Gmlake::live_block(Address address) const {
    const GmlakeBlock* const block = live_.find(address);
    if (block == nullptr) return small_.live_block(address);
    return LiveBlock{block->bytes, block->requested, block->pool->stream, block->used_on.size()};
}

OnlineDefinition describe_gmlake() {
    return {.name = "gmlake",
            .summary = "Stitch scattered free blocks for requests from the limit on.",
            .source = "GMLake, ASPLOS 2024",
            .parameters = {{.name = "fragmentation_limit_mib",
                            .help = "MiB of the smallest request that may stitch blocks",
                            .usual = std::int64_t{128},
                            .most = kMostMebibytes},
                           {.name = "limits_blocks",
                            .help = "whether smaller blocks are neither split nor stitched",
                            .usual = false},
                           {.name = "most_stitched",
                            .help = "most stitched blocks that are kept (StitchFree)",
                            .usual = std::int64_t{4096},
                            .most = std::int64_t{1} << 22},
                           {.name = "most_stitched_mib",
                            .help = "most MiB of addresses of stitched blocks (StitchFree)",
                            .usual = std::int64_t{1} << 22,
                            .most = kMostMebibytes}},
            .make = [](DeviceMemory& memory, const OnlineValues& values) -> MadeOnline {
                return std::make_unique<Gmlake>(
                    memory,
                    GmlakeRules{.fragmentation_limit_bytes = bytes_of_mebibytes(values.at(0)),
                                .limits_blocks = std::get<bool>(values.at(1)),
                                .most_stitched =
                                    static_cast<std::size_t>(std::get<std::int64_t>(values.at(2))),
                                .most_stitched_bytes = bytes_of_mebibytes(values.at(3))});
            },
            .dictated = ""};
}

}  // namespace gapless::runtime
