#include "online/pytorch_expandable.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "device/sizes.h"
#include "device/stream_mark.h"
#include "online/online_allocators.h"

namespace gapless::runtime {

namespace {

constexpr std::size_t kSmallPage = std::size_t{2} << 20;
constexpr Pages kNoPages = std::numeric_limits<Pages>::max();

std::size_t large_page(DeviceMemory& memory, const PytorchSettings& settings) {
    const std::size_t bytes = settings.expandable_page_bytes != 0 ? settings.expandable_page_bytes
                                                                  : settings.large_segment_bytes;
    if (bytes % memory.page_bytes() == 0) return bytes;
    throw std::invalid_argument("pages of an expandable segment have a multiple of " +
                                std::to_string(memory.page_bytes()) +
                                " bytes on this device, found " + std::to_string(bytes));
}

bool is_unused(const PoolBlock* block) {
    return block != nullptr &&
           (block->state == OnlineState::free || block->state == OnlineState::unmapped);
}

bool is_mapped(const PoolBlock* block) {
    return block != nullptr && block->state != OnlineState::unmapped;
}

// Returns the bytes to which a free block can grow if unmapped addresses follow it.
std::size_t room_of(const PoolBlock& block) {
    const PoolBlock* const behind = block.behind;
    return block.bytes + (behind != nullptr && !is_mapped(behind) ? behind->bytes : 0);
}

bool has_room(const PoolBlock* block, std::size_t bytes) {
    std::size_t found = 0;
    for (; found < bytes && is_unused(block); block = block->behind) found += block->bytes;
    return found >= bytes;
}

}  // namespace

PytorchExpandable::PytorchExpandable(DeviceMemory& memory, const PytorchSettings& settings)
    : PytorchAllocator(memory, settings),
      mapper_(memory),
      stocks_{PageStock(memory, mapper_, account_, kSmallPage),
              PageStock(memory, mapper_, account_, large_page(memory, settings))} {}

// A block that can grow counts with the bytes to which it can grow, which keeps it for large
// requests.
PoolBlock* PytorchExpandable::find(StreamPool& pool, std::size_t bytes) const {
    auto fit = pool.free.lower_bound({bytes, 0, nullptr});
    if (fit == pool.free.end()) return nullptr;
    for (auto next = std::next(fit);
         next != pool.free.end() && room_of(*next->block) < room_of(*fit->block); ++next) {
        fit = next;
    }
    return may_serve(*fit->block, bytes) ? fit->block : nullptr;
}

bool PytorchExpandable::is_split(const PoolBlock& block, std::size_t bytes) const {
    return block.bytes - bytes >= kBlockAlignment;
}

PoolBlock* PytorchExpandable::obtain(StreamPool& pool, std::size_t bytes) {
    require_allowed(settings_.segment_for(bytes));
    PoolBlock* found = &place_for(pool, bytes);
    if (!is_mapped(found)) found = map_block(*found, std::min(found->bytes, bytes));
    while (found->bytes < bytes) {
        found = map_block(*found->behind, std::min(found->behind->bytes, bytes - found->bytes));
    }
    return found;
}

PoolBlock& PytorchExpandable::place_for(StreamPool& pool, std::size_t bytes) {
    for (const ListedBlock& hole : pool.unmapped) {
        PoolBlock* const before = hole.block->before;
        PoolBlock* const first = is_unused(before) ? before : hole.block;
        if (has_room(first, bytes)) return *first;
    }
    const std::size_t total = memory_.total_bytes();
    const std::size_t each = stock_of(pool).each();
    const std::size_t range = round_up(std::max(total + total / 8, bytes), each);
    PoolSegment& segment = add_segment(pool, memory_.reserve_range(range), range);
    segment.pages.assign(range / each, kNoPages);
    return *put(*segment.first, OnlineState::unmapped);
}

PoolBlock* PytorchExpandable::map_block(PoolBlock& block, std::size_t bytes) {
    PageStock& stock = stock_of(*block.pool);
    PoolSegment& segment = *block.segment;
    const std::size_t mapped = round_up(bytes, stock.each());
    std::vector<Pages> pages;
    try {
        while (pages.size() < mapped / stock.each()) pages.push_back(stock.obtain());
        mapper_.map(block.address, pages, stock.each());
    } catch (...) {
        for (const Pages each : pages) stock.give(each);
        throw;
    }
    std::ranges::copy(
        pages, segment.pages.begin() +
                   static_cast<std::ptrdiff_t>((block.address - segment.address) / stock.each()));
    take(block);
    block.state = OnlineState::free;
    if (mapped < block.bytes) put(*split(block, mapped), OnlineState::unmapped);
    account_.add_segment();
    if (is_mapped(block.before)) account_.remove_segment();
    if (is_mapped(block.behind)) account_.remove_segment();
    return put(block, OnlineState::free);
}

void PytorchExpandable::release_idle(const std::set<PoolId>& pools) {
    for (const std::size_t kind : {std::size_t{1}, std::size_t{0}}) {
        for (PoolBlock* const block : idle_blocks(kind, pools)) unmap_block(*block);
        stocks_[kind].release_kept();
    }
    for (auto next = segments_.begin(); next != segments_.end();) {
        PoolSegment& segment = (next++)->second;
        PoolBlock& first = *segment.first;
        if (is_mapped(&first) || first.bytes < segment.bytes) continue;
        memory_.release_range(segment.address, segment.bytes);
        take(first);
        drop_segment(segment);
    }
}

void PytorchExpandable::unmap_block(PoolBlock& block) {
    PoolSegment& segment = *block.segment;
    const std::size_t each = stock_of(*block.pool).each();
    const std::size_t first = (block.address - segment.address + each - 1) / each;
    const std::size_t behind = (block.end() - segment.address) / each;
    if (first >= behind) return;
    try {
        memory_.await(StreamMark(memory_, block.pool->stream).event());
    } catch (const StreamIsGone&) {
        memory_.synchronize();
    }
    std::exception_ptr refused;
    const std::size_t last = unmap_pages(block, first, behind, refused);
    if (last > first) add_hole(block, first, last);
    if (refused != nullptr) std::rethrow_exception(refused);
}

// Makes the unmapped pages of a free block a hole.
void PytorchExpandable::add_hole(PoolBlock& block, std::size_t first, std::size_t last) {
    const std::size_t each = stock_of(*block.pool).each();
    take(block);
    PoolBlock* hole = &block;
    const std::size_t bytes_before = block.segment->address + first * each - block.address;
    block.state = OnlineState::unmapped;
    if (bytes_before > 0) hole = split(block, bytes_before);
    if (hole->bytes > (last - first) * each) {
        put(*split(*hole, (last - first) * each), OnlineState::free);
    }
    if (bytes_before > 0) put(block, OnlineState::free);
    if (is_mapped(hole->before)) account_.add_segment();
    if (is_mapped(hole->behind)) account_.add_segment();
    account_.remove_segment();
    put(*hole, OnlineState::unmapped);
}

// Returns the index of the page behind the last unmapped one.
std::size_t PytorchExpandable::unmap_pages(const PoolBlock& block, std::size_t first,
                                           std::size_t last, std::exception_ptr& refused) {
    PageStock& stock = stock_of(*block.pool);
    PoolSegment& segment = *block.segment;
    for (std::size_t i = first; i < last; ++i) {
        try {
            memory_.unmap(segment.address + i * stock.each(), stock.each());
        } catch (const DeviceCallError&) {
            refused = std::current_exception();
            return i;
        }
        stock.give(segment.pages[i]);
        segment.pages[i] = kNoPages;
    }
    return last;
}

OnlineDefinition describe_pytorch_expandable() {
    return {.name = "pytorch-expandable",
            .summary = "PyTorch's allocator with expandable segments: pages mapped on demand.",
            .source = "PyTorch's documentation of its CUDA allocator",
            .parameters = {pytorch_settings_parameter()},
            .make = [](DeviceMemory& memory, const OnlineValues& values) -> MadeOnline {
                return std::make_unique<PytorchExpandable>(memory,
                                                           std::get<PytorchSettings>(values.at(0)));
            },
            .dictated = "ranges"};
}

}  // namespace gapless::runtime
