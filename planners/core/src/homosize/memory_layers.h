// Memory layers: slices of the address space, each as large as the requests that opened it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "homosize/requests.h"
#include "model/stop.h"

namespace gapless {

// Algorithm 1: the layer of each request of one size, given in the order of their starts. A
// request goes to the layer whose last request ended latest of those that ended before it starts,
// or to a new one; of equal ends to the lowest layer. Lifetimes are half-open: a layer that ends
// at a step is free from this step on. Throws std::invalid_argument unless starts rise and every
// request ends after its start.
std::vector<std::int64_t> memory_layers(std::span<const std::int64_t> start,
                                        std::span<const std::int64_t> end);

// Which layer of larger requests takes a request in its idle time, and what it takes of it.
struct InsertionRules {
    // Looks through the layers from the last one opened, the smallest, and not from the largest.
    bool smallest_first = false;
    // Takes its own bytes alone, so that others fit beside it, and not the whole layer.
    bool beside = true;
};

// Where each request lies: its layer, and the bytes of the layer below it.
struct LayeredPlan {
    std::vector<std::int64_t> layer;
    std::vector<std::int64_t> within;
    std::vector<std::int64_t> layer_size;
};

// Global planning. Requests come in the order of falling sizes and, of one size, of their starts.
// Those of a size are first inserted into idle time of the layers that larger ones opened; the
// rest gets layers of its own by Algorithm 1. Throws std::invalid_argument for another order.
LayeredPlan plan_in_layers(Requests requests, InsertionRules rules, Stop& stop);

}  // namespace gapless
