// Memory layers: slices of the address space. Each is as large as the requests that opened it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "homosize/requests.h"
#include "model/stop.h"

namespace gapless {

// Algorithm 1 of the paper: returns the layer of each request. All requests have one size and are
// given by rising start. A request goes to the layer whose last request ended latest among those
// that ended before the request starts, or to a new layer. Ties go to the lowest layer. Lifetimes
// are half-open: a layer whose request ends at a step is free from this step on. Throws
// std::invalid_argument unless starts rise and every request ends after its start.
std::vector<std::int64_t> memory_layers(std::span<const std::int64_t> start,
                                        std::span<const std::int64_t> end);

// How a request is inserted into a layer of larger requests, and how much of the layer it occupies.
struct InsertionRules {
    // The search visits the smallest layer (the last one opened) first; otherwise the largest.
    bool smallest_first = false;
    // A request occupies only its own bytes, so that others fit beside it; otherwise the whole
    // layer.
    bool beside = true;
};

// The place of each request: its layer, and its offset within the layer.
struct LayeredPlan {
    std::vector<std::int64_t> layer;
    std::vector<std::int64_t> within;
    std::vector<std::int64_t> layer_size;
};

// Global planning. Requests are sorted by falling size, and by start within one size. Requests of
// one size first go into the idle time of layers that larger requests opened. The rest gets layers
// of its own by Algorithm 1. Throws std::invalid_argument for another order.
LayeredPlan plan_in_layers(Requests requests, InsertionRules rules, Stop& stop);

}  // namespace gapless
