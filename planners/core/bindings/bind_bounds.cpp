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
// Rationale. A caller that comes while another thread continues the search wants that thread's
// result, so it waits. But the caller may be a signal handler that interrupted the search; it would
// wait for itself. It may also have a short time limit, or be interrupted.
// Approach. The waiting caller looks every few milliseconds whether the search is free, and in
// between checks its own time limit and signals. A mutex allows neither, and must not be locked by
// the thread that holds it.
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
                Antichain found = without_python(seconds, [&](Stop& stop) {
                    const Turn turn(self.taken, stop);
                    return self.search.run(stop);
                });
                return std::pair(found.bytes, to_numpy(std::move(found.tensors)));
            },
            nb::arg("seconds"),
            "Bytes and tensors. Where the time is over before it is done (TimeoutError), the next "
            "call goes on from there.");
}

}  // namespace gapless::bindings
