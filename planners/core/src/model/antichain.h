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

// Finds the heaviest antichain. A stopped search can be continued. See the Note in antichain.cpp.
class AntichainSearch {
  public:
    // `size` has one entry for each tensor. Throws std::invalid_argument if its length is wrong or
    // a size is negative, and std::overflow_error if the sizes sum to more bytes than any problem
    // may have.
    AntichainSearch(std::shared_ptr<const Graph> graph, std::vector<std::int64_t> size);
    ~AntichainSearch();

    // Returns the exact answer. If `stop` throws, the next call continues from the flow reached so
    // far.
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
