#include "device/ledger_memory.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Made-up addresses lie beyond the address space of a process.
constexpr Address kFirstAddress = Address{1} << 48;
constexpr Address kLastAddress = Address{1} << 63;

void add_dictated(std::deque<Address>& dictated, const std::vector<Address>& addresses) {
    for (const Address address : addresses) {
        if (address == 0 || address >= kFirstAddress) {
            throw std::invalid_argument("field addresses: from 1 on, each below " +
                                        std::to_string(kFirstAddress) + ", found " +
                                        std::to_string(address));
        }
    }
    dictated.insert(dictated.end(), addresses.begin(), addresses.end());
}

bool overlaps(const std::map<Address, std::size_t>& taken, Address address, std::size_t bytes) {
    const auto behind = taken.lower_bound(address);
    return (behind != taken.end() && behind->first < address + bytes) ||
           (behind != taken.begin() &&
            std::prev(behind)->first + std::prev(behind)->second > address);
}

}  // namespace

LedgerMemory::LedgerMemory(std::size_t page_bytes, std::size_t capacity_bytes,
                           LedgerStreams streams)
    : page_bytes_(page_bytes),
      capacity_bytes_(capacity_bytes),
      is_done_at_once_(streams == LedgerStreams::at_once),
      next_address_(kFirstAddress) {
    if (page_bytes == 0 || page_bytes > kFirstAddress) {
        throw std::invalid_argument("field page_bytes: from 1 to " + std::to_string(kFirstAddress) +
                                    ", found " + std::to_string(page_bytes));
    }
}

void LedgerMemory::dictate_plain(const std::vector<Address>& addresses) {
    add_dictated(dictated_plain_, addresses);
}

void LedgerMemory::dictate_ranges(const std::vector<Address>& addresses) {
    add_dictated(dictated_ranges_, addresses);
    are_ranges_dictated_ = true;
}

Address LedgerMemory::next_address(std::deque<Address>& dictated, std::size_t bytes) {
    if (!dictated.empty()) {
        const Address address = dictated.front();
        dictated.pop_front();
        if (!overlaps(plain_, address, bytes) && !ranges_.contains(address)) return address;
    }
    if (bytes > kFirstAddress) throw OutOfDeviceMemory("no address range: too many bytes");
    const Address address = round_up(next_address_, std::max(page_bytes_, kMadeMultiple));
    if (address + bytes > kLastAddress) {
        throw OutOfDeviceMemory("no address range: all addresses are taken");
    }
    next_address_ = address + bytes;
    return address;
}

void LedgerMemory::take(std::size_t bytes) {
    if (bytes > capacity_bytes_ - created_bytes_) {
        throw OutOfDeviceMemory("no physical memory of " + std::to_string(bytes) + " bytes");
    }
    created_bytes_ += bytes;
}

Address LedgerMemory::reserve_range(std::size_t bytes) {
    const Address address = next_address(dictated_ranges_, bytes);
    ranges_.insert(address);
    return address;
}

void LedgerMemory::release_range(Address address, std::size_t /*bytes*/) { ranges_.erase(address); }

Pages LedgerMemory::create_pages(std::size_t bytes) {
    take(bytes);
    pages_.push_back(bytes);
    return pages_.size() - 1;
}

void LedgerMemory::release_pages(Pages pages) {
    created_bytes_ -= pages_.at(pages);
    pages_[pages] = 0;
}

void LedgerMemory::map(Address address, Pages /*pages*/, std::size_t bytes) {
    if (overlaps(mapped_, address, bytes)) {
        if (!are_ranges_dictated_) throw std::logic_error("mapped twice");
        throw std::invalid_argument(
            "field addresses: dictated ranges that share no memory are needed, found some at " +
            std::to_string(address));
    }
    mapped_.emplace(address, bytes);
}

void LedgerMemory::unmap(Address address, std::size_t bytes) {
    mapped_.erase(mapped_.lower_bound(address), mapped_.lower_bound(address + bytes));
}

Address LedgerMemory::allocate_plain(std::size_t bytes) {
    take(bytes);
    const Address address = next_address(dictated_plain_, bytes);
    plain_.emplace(address, bytes);
    return address;
}

void LedgerMemory::release_plain(Address address) {
    const auto found = plain_.find(address);
    if (found == plain_.end()) throw std::logic_error("no such plain memory");
    created_bytes_ -= found->second;
    plain_.erase(found);
}

void LedgerMemory::synchronize() { progress_.finish_all(); }

Event LedgerMemory::record_event(Stream stream) {
    if (free_events_.empty()) {
        free_events_.push_back(events_.size());
        events_.emplace_back();
    }
    const Event event = free_events_.back();
    free_events_.pop_back();
    events_[event] = progress_.record(stream);
    ++live_events_;
    return event;
}

bool LedgerMemory::is_done(Event event) {
    return is_done_at_once_ || progress_.is_done(events_.at(event));
}

void LedgerMemory::await(Event event) { progress_.await(events_.at(event)); }

void LedgerMemory::make_wait(Stream stream, Event event) {
    if (!is_done_at_once_) progress_.make_wait(stream, events_.at(event));
}

void LedgerMemory::destroy_event(Event event) {
    free_events_.push_back(event);
    --live_events_;
}

}  // namespace gapless::runtime
