// The heaviest set of tensors that are pairwise unsafe, by one minimum flow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

struct Antichain {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> tensors;
};

// The search for it, which may be stopped and goes on where it was. See the Note in antichain.cpp.
class AntichainSearch {
  public:
    // `size` has one entry a tensor: throws std::invalid_argument unless it has, of at least 0,
    // std::overflow_error for more bytes than any problem has.
    AntichainSearch(std::shared_ptr<const Graph> graph, std::vector<std::int64_t> size);
    ~AntichainSearch();

    // Exact. What `stop` throws ends the call alone.
    const Antichain& run(Stop& stop);

  private:
    class Network;
    class Reduction;

    Antichain cut() const;

    std::shared_ptr<const Graph> graph_;
    std::vector<std::int64_t> size_;
    std::unique_ptr<const Network> network_;
    std::unique_ptr<Reduction> reduction_;
    std::optional<Antichain> found_;
};

}  // namespace gapless
