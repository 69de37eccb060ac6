// Physical memory in pages of one size.
#pragma once

#include <cstddef>
#include <vector>

#include "device/device_memory.h"
#include "device/page_mapper.h"
#include "online/online_account.h"

namespace gapless::runtime {

// Pages come from the device, and go back to it at once. A page that the device does not take back
// is kept, counts as free, and serves the next request.
class PageStock {
  public:
    PageStock(DeviceMemory& memory, PageMapper& mapper, OnlineAccount& account, std::size_t each)
        : memory_(memory), mapper_(mapper), account_(account), each_(each) {}

    std::size_t each() const { return each_; }

    // Throws OutOfDeviceMemory and DeviceCallError.
    Pages obtain() {
        if (kept_.empty()) {
            const Pages pages = memory_.create_pages(each_);
            account_.reserved(each_);
            return pages;
        }
        const Pages pages = kept_.back();
        kept_.pop_back();
        account_.remove_free(each_);
        return pages;
    }

    // The pages are mapped nowhere, except for a mapping that the mapper has yet to undo.
    void give(Pages pages) {
        kept_.push_back(pages);
        account_.add_free(each_);
        try {
            release_kept();
        } catch (const DeviceCallError&) {
            // The stock keeps the pages.
        }
    }

    // Throws DeviceCallError.
    void release_kept() {
        while (!kept_.empty()) {
            mapper_.settle();
            memory_.release_pages(kept_.back());
            kept_.pop_back();
            account_.remove_free(each_);
            account_.released(each_);
        }
    }

  private:
    DeviceMemory& memory_;
    PageMapper& mapper_;
    OnlineAccount& account_;
    const std::size_t each_;
    std::vector<Pages> kept_;
};

}  // namespace gapless::runtime
