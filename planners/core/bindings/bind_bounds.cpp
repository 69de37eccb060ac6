#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <mutex>
#include <utility>

#include "antichain.h"
#include "arrays.h"

namespace gapless::bindings {

namespace {

// A search with the lock that lets one thread at a time go on with it.
struct LockedAntichainSearch {
    AntichainSearch search;
    std::mutex mutex;
};

}  // namespace

void bind_bounds(nb::module_& module) {
    nb::class_<LockedAntichainSearch>(
        module, "AntichainSearch",
        "The search for the heaviest pairwise unsafe set. Any thread may run it; one at a time "
        "does.")
        .def(
            "__init__",
            [](LockedAntichainSearch* self, std::shared_ptr<const Graph> graph,
               Array<std::int64_t> size) {
                new (self) LockedAntichainSearch{{std::move(graph), copy(size)}, {}};
            },
            nb::arg("graph"), nb::arg("size"))
        .def(
            "run",
            [](LockedAntichainSearch& self, double seconds) {
                Stop stop = stop_after(seconds);
                Antichain found;
                {
                    nb::gil_scoped_release without_python;
                    const std::lock_guard lock(self.mutex);
                    found = self.search.run(stop);
                }
                return std::pair(found.bytes, to_numpy(std::move(found.tensors)));
            },
            nb::arg("seconds"),
            "Bytes and tensors. Where the time is over before it is done (TimeoutError), the next "
            "call goes on from there.");
}

}  // namespace gapless::bindings
