#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "budget/repeat_walk.h"
#include "budget/step.h"

namespace gapless::bindings {

void bind_budget(nb::module_& module) {
    nb::class_<Step>(module, "Step", "A step of which some nodes may run a second time.")
        .def(
            "__init__",
            [](Step* self, std::int64_t nodes, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Array<std::int64_t> size, Array<std::int32_t> unit, Array<double> seconds,
               std::int32_t first_late_node) {
                new (self) Step(nodes, {copy(producer), copy(consumer_offsets), copy(consumers),
                                        copy(size), copy(unit), copy(seconds), first_late_node});
            },
            nb::arg("nodes"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("size"), nb::arg("unit"), nb::arg("seconds"),
            nb::arg("first_late_node"))
        .def(
            "late_sequence",
            [](const Step& step, Array<std::uint8_t> repeated) {
                const auto flags = copy(repeated);
                step.require_flags(flags);
                double seconds = 0;
                auto sequence = step.late_sequence(flags, seconds);
                return std::pair(to_numpy(std::move(sequence)), seconds);
            },
            nb::arg("repeated"), nb::rv_policy::move,
            "The nodes in the order in which they run, and the seconds of the second runs.")
        .def(
            "cost",
            [](const Step& step, Array<std::uint8_t> repeated, std::int64_t limit) {
                const auto flags = copy(repeated);
                step.require_flags(flags);
                double seconds = 0;
                const auto memory = step.memory(step.late_sequence(flags, seconds), limit);
                return std::tuple(seconds, memory.peak, memory.excess);
            },
            nb::arg("repeated"), nb::arg("limit"),
            "Seconds of the second runs; peak of live bytes; and the bytes above a limit, summed "
            "over the places of the sequence, as a part of the limit.")
        .def(
            "live_bytes",
            [](const Step& step, Array<std::int32_t> sequence) {
                const auto nodes = copy(sequence);
                step.require_sequence(nodes);
                return to_numpy(step.live_bytes(nodes));
            },
            nb::arg("sequence"), nb::rv_policy::move, "Live bytes at each place of a sequence.");

    nb::class_<RepeatWalk>(module, "RepeatWalk",
                           "Local search over the units that run again. One thread at a time.")
        .def(
            "__init__",
            [](RepeatWalk* self, std::shared_ptr<const Step> step, Array<std::uint8_t> repeated,
               std::int64_t limit, std::uint64_t seed) {
                new (self) RepeatWalk(std::move(step), copy(repeated), limit, seed);
            },
            nb::arg("step"), nb::arg("repeated"), nb::arg("limit"), nb::arg("seed"))
        .def(
            "run",
            [](RepeatWalk& walk, std::int64_t moves, double warmth, double coolness,
               double seconds) {
                Stop stop = stop_after(seconds);
                nb::gil_scoped_release without_python;
                walk.run(moves, warmth, coolness, stop);
            },
            nb::arg("moves"), nb::arg("warmth"), nb::arg("coolness"), nb::arg("seconds"),
            "The best state is kept, also where the time is over.")
        .def_prop_ro("tried", &RepeatWalk::tried)
        .def_prop_ro("best_seconds", &RepeatWalk::best_seconds)
        .def_prop_ro("lowest_peak", &RepeatWalk::lowest_peak)
        .def_prop_ro(
            "best",
            [](const RepeatWalk& walk) {
                return to_numpy(std::vector<std::uint8_t>(walk.best()));
            },
            nb::rv_policy::move)
        .def_prop_ro(
            "lowest",
            [](const RepeatWalk& walk) {
                return to_numpy(std::vector<std::uint8_t>(walk.lowest()));
            },
            nb::rv_policy::move);
}

}  // namespace gapless::bindings
