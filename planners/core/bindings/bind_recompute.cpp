#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "recompute/repeat_walk.h"
#include "recompute/step.h"

namespace gapless::bindings {

namespace {

std::pair<NumpyArray<std::uint8_t>, NumpyArray<std::uint8_t>> to_pair(const Choice& choice) {
    return {to_numpy(std::vector<std::uint8_t>(choice.repeated)),
            to_numpy(std::vector<std::uint8_t>(choice.sent))};
}

}  // namespace

void bind_recompute(nb::module_& module) {
    nb::class_<Step>(module, "Step",
                     "A step of which some nodes may run a second time, and some tensors be sent "
                     "to the host.")
        .def(
            "__init__",
            [](Step* self, std::int64_t nodes, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Array<std::int64_t> size, Array<std::int32_t> unit, Array<double> seconds,
               Array<std::uint8_t> repeatable, Array<std::uint8_t> sendable, double copy_seconds,
               std::int32_t first_late_node) {
                new (self) Step(nodes, {copy(producer), copy(consumer_offsets), copy(consumers),
                                        copy(size), copy(unit), copy(seconds), copy(repeatable),
                                        copy(sendable), copy_seconds, first_late_node});
            },
            nb::arg("nodes"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("size"), nb::arg("unit"), nb::arg("seconds"),
            nb::arg("repeatable"), nb::arg("sendable"), nb::arg("copy_seconds"),
            nb::arg("first_late_node"))
        .def(
            "late_sequence",
            [](const Step& step, Array<std::uint8_t> repeated, Array<std::uint8_t> sent) {
                const Choice choice{copy(repeated), copy(sent)};
                step.require_choice(choice);
                return to_numpy(step.late_sequence(choice));
            },
            nb::arg("repeated"), nb::arg("sent"), nb::rv_policy::move,
            "The nodes and copies in the order in which they run.")
        .def(
            "cost",
            [](const Step& step, Array<std::int32_t> sequence, std::int64_t limit) {
                const auto entries = copy(sequence);
                step.require_sequence(entries);
                const auto found = step.cost(entries, limit);
                return std::tuple(found.seconds, found.peak, found.excess);
            },
            nb::arg("sequence"), nb::arg("limit"),
            "Seconds more than the first runs alone; peak of live bytes; and the bytes above a "
            "limit, summed over the places of the sequence, as a part of the limit.")
        .def(
            "live_bytes",
            [](const Step& step, Array<std::int32_t> sequence) {
                const auto entries = copy(sequence);
                step.require_sequence(entries);
                return to_numpy(step.live_bytes(entries));
            },
            nb::arg("sequence"), nb::rv_policy::move, "Live bytes at each place of a sequence.");

    nb::class_<RepeatWalk>(module, "RepeatWalk",
                           "Local search over what runs again and what is sent away. One thread at "
                           "a time.")
        .def(
            "__init__",
            [](RepeatWalk* self, std::shared_ptr<const Step> step, Array<std::uint8_t> repeated,
               Array<std::uint8_t> sent, std::int64_t limit, std::uint64_t seed) {
                new (self) RepeatWalk(std::move(step), {copy(repeated), copy(sent)}, limit, seed);
            },
            nb::arg("step"), nb::arg("repeated"), nb::arg("sent"), nb::arg("limit"),
            nb::arg("seed"))
        .def(
            "run",
            [](RepeatWalk& walk, std::int64_t moves, double warmth, double coolness,
               double seconds) {
                without_python(seconds,
                               [&](Stop& stop) { walk.run(moves, warmth, coolness, stop); });
            },
            nb::arg("moves"), nb::arg("warmth"), nb::arg("coolness"), nb::arg("seconds"),
            "The best state is kept, also where the time is over.")
        .def_prop_ro("tried", &RepeatWalk::tried)
        .def_prop_ro("has_best", &RepeatWalk::has_best,
                     "Whether some state was at most at the limit.")
        .def_prop_ro("best_seconds", &RepeatWalk::best_seconds)
        .def_prop_ro(
            "best", [](const RepeatWalk& walk) { return to_pair(walk.best()); },
            nb::rv_policy::move, "Flags of units that run again, and of tensors sent away.")
        .def_prop_ro(
            "lowest", [](const RepeatWalk& walk) { return to_pair(walk.lowest()); },
            nb::rv_policy::move, "The same for the state with the lowest peak.");
}

}  // namespace gapless::bindings
