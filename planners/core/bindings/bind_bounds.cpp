#include <nanobind/stl/pair.h>

#include "antichain.h"
#include "arrays.h"

namespace gapless::bindings {

void bind_bounds(nb::module_& module) {
    module.def(
        "heaviest_antichain",
        [](const Graph& graph, Array<std::int64_t> size, double seconds) {
            Stop stop = stop_after(seconds);
            Antichain antichain;
            {
                nb::gil_scoped_release without_python;
                if (size.shape(0) != static_cast<std::size_t>(graph.tensor_count())) {
                    throw std::invalid_argument("one size a tensor is needed");
                }
                antichain = heaviest_antichain(graph, copy(size), stop);
            }
            return std::pair(antichain.bytes, to_numpy(std::move(antichain.tensors)));
        },
        nb::arg("graph"), nb::arg("size"), nb::arg("seconds"),
        "Bytes and tensors of the heaviest pairwise unsafe set.");
}

}  // namespace gapless::bindings
