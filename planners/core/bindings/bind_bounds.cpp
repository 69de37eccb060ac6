#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "arrays.h"
#include "model/antichain.h"

namespace gapless::bindings {

namespace {

// Note [In turn]
// ~~~~~~~~~~~~~~
// Rationale. Whoever comes while somebody else goes on with the search wants what that one finds,
// so it waits. It may come from a handler of signals in the middle of the search, on which it would
// wait for itself; it may be in a hurry, or be interrupted.
// Approach. It looks again every few milliseconds, and between the looks at its own time limit and
// at signals. A mutex could do neither, and may not be asked for by the thread that has it.
class Turn {
  public:
    Turn(std::atomic_flag& taken, Stop& stop) : taken_(taken) {
        while (taken_.test_and_set()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            stop.check();
        }
    }
    ~Turn() { taken_.clear(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    std::atomic_flag& taken_;
};

struct SharedAntichainSearch {
    AntichainSearch search;
    std::atomic_flag taken;
};

}  // namespace

void bind_bounds(nb::module_& module) {
    nb::class_<SharedAntichainSearch>(
        module, "AntichainSearch",
        "The search for the heaviest pairwise unsafe set. Any thread may run it; one at a time "
        "does.")
        .def(
            "__init__",
            [](SharedAntichainSearch* self, std::shared_ptr<const Graph> graph,
               Array<std::int64_t> size) {
                new (self) SharedAntichainSearch{{std::move(graph), copy(size)}, {}};
            },
            nb::arg("graph"), nb::arg("size"))
        .def(
            "run",
            [](SharedAntichainSearch& self, double seconds) {
                Stop stop = stop_after(seconds);
                Antichain found;
                {
                    nb::gil_scoped_release without_python;
                    const Turn turn(self.taken, stop);
                    found = self.search.run(stop);
                }
                return std::pair(found.bytes, to_numpy(std::move(found.tensors)));
            },
            nb::arg("seconds"),
            "Bytes and tensors. Where the time is over before it is done (TimeoutError), the next "
            "call goes on from there.");
}

}  // namespace gapless::bindings
