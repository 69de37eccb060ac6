#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>

#include "arrays.h"
#include "greedy/placement.h"
#include "one_at_a_time.h"
#include "search/order_search.h"
#include "search/reuse_search.h"
#include "search/skyline_beam.h"
#include "search/skyline_fill.h"

namespace gapless::bindings {

namespace {

using Placed = std::tuple<NumpyArray<std::int64_t>, std::int64_t, bool>;

struct GuardedReuse {
    ReuseSearch search;
    std::atomic_flag busy;
};

template <class Place>
void bind_place(nb::module_& module, const char* name, const std::string& algorithm, Place place) {
    const std::string doc =
        algorithm +
        ": offsets for blocks placed in this order; how many of the order were placed before one "
        "would have ended at or above the limit, or the time was over; and whether it was.";
    module.def(
        name,
        [place](const Instance& instance, Array<std::int32_t> order, Fit fit, ChainRule chain_rule,
                std::int64_t limit, double seconds) {
            const std::vector<std::int32_t> blocks = copy(order);
            Placement placement = without_python(seconds, [&](Stop& stop) {
                return place(instance, blocks, {fit, chain_rule, limit}, stop);
            });
            return Placed(to_numpy(std::move(placement.offsets)), placement.placed,
                          placement.out_of_time);
        },
        nb::arg("instance"), nb::arg("order"), nb::arg("fit"), nb::arg("chain_rule"),
        nb::arg("limit"), nb::arg("seconds"), doc.c_str());
}

}  // namespace

void bind_placement(nb::module_& module) {
    module.attr("NO_LIMIT") = kNoLimit;
    module.attr("FILL_REASONS") = static_cast<int>(kReasons);
    nb::enum_<Fit>(module, "Fit").value("FIRST", Fit::kFirst).value("BEST", Fit::kBest);
    nb::enum_<ChainRule>(module, "ChainRule")
        .value("EXACT", ChainRule::kExact)
        .value("PAPER", ChainRule::kPaper);
    bind_place(module, "place_single_object", "Algorithm 6", place_single_object);
    bind_place(module, "place_many_objects", "Algorithm 7", place_many_objects);
    module.def(
        "search_orders",
        [](const Instance& instance, Array<std::int32_t> order, std::int64_t limit,
           std::int64_t attempts, std::uint64_t seed, double seconds) {
            const std::vector<std::int32_t> blocks = copy(order);
            OrderSearchStep step = without_python(seconds, [&](Stop& stop) {
                return search_orders(instance, blocks, limit, attempts, seed, stop);
            });
            return std::tuple(to_numpy(std::move(step.offsets)), to_numpy(std::move(step.order)),
                              step.attempts, step.none);
        },
        nb::arg("instance"), nb::arg("order"), nb::arg("limit"), nb::arg("attempts"),
        nb::arg("seed"), nb::arg("seconds"),
        "Offsets of the first plan below the limit, empty without one; the order to go on from; "
        "the attempts made; and whether it is proven that there is no such plan.");
    nb::class_<GuardedReuse>(
        module, "ReuseSearch",
        "Local search for a plan whose places and reuse cost least; one call at a time.")
        .def(
            "__init__",
            [](GuardedReuse* self, const Instance& instance, Table<std::int64_t> prices,
               Table<std::int64_t> ranges, Array<std::int64_t> heads, std::uint64_t seed) {
                new (self) GuardedReuse{{instance, copy(prices, "prices", 3),
                                         copy(ranges, "ranges", 6), copy(heads), seed},
                                        {}};
            },
            nb::arg("instance"), nb::arg("prices"), nb::arg("ranges"), nb::arg("heads"),
            nb::arg("seed"))
        .def(
            "run",
            [](GuardedReuse& asked, std::int64_t attempts, std::int64_t goal, double seconds) {
                const OneAtATime alone(asked.busy, "ReuseSearch.run");
                return without_python(
                    seconds, [&](Stop& stop) { return asked.search.run(attempts, goal, stop); });
            },
            nb::arg("attempts"), nb::arg("goal"), nb::arg("seconds"),
            "Makes attempts until a plan costs at most the goal; returns how many were made.")
        .def(
            "best",
            [](GuardedReuse& asked) {
                const OneAtATime alone(asked.busy, "ReuseSearch.best");
                const ReuseSearch& search = asked.search;
                return std::tuple(search.least().bytes_out, search.least().price,
                                  to_numpy(std::vector<std::int64_t>(search.best_heads())));
            },
            "The bytes of the blocks that are out, what the others pay, and all heads.");
    module.def(
        "beam_over_skylines",
        [](const Instance& instance, std::int64_t capacity, std::int64_t limit, std::int32_t width,
           std::int64_t node_limit, std::uint64_t seed, double seconds) {
            SkylineAnswer answer = without_python(seconds, [&](Stop& stop) {
                return beam_over_skylines(instance, capacity, limit, width, node_limit, seed, stop);
            });
            return std::tuple(to_numpy(std::move(answer.offsets)), answer.nodes, answer.whole);
        },
        nb::arg("instance"), nb::arg("capacity"), nb::arg("limit"), nb::arg("width"),
        nb::arg("node_limit"), nb::arg("seed"), nb::arg("seconds"),
        "Offsets of a plan within the limit, empty without one; the skylines looked at; and "
        "whether a wider beam would do the same.");
    module.def(
        "search_fills",
        [](const Instance& instance, Array<double> weights, Array<double> priority,
           std::int64_t limit, std::int64_t attempts, std::uint64_t seed, double seconds) {
            FillWeights first{};
            if (weights.shape(0) != first.size()) {
                throw std::invalid_argument("weights: " + std::to_string(first.size()) +
                                            " are needed, found " +
                                            std::to_string(weights.shape(0)));
            }
            std::copy_n(weights.data(), first.size(), first.begin());
            const std::vector<double> own = copy(priority);
            FillStep step = without_python(seconds, [&](Stop& stop) {
                return search_fills(instance, first, own, limit, attempts, seed, stop);
            });
            return std::tuple(
                to_numpy(std::move(step.offsets)),
                to_numpy(std::vector<double>(step.weights.begin(), step.weights.end())),
                to_numpy(std::move(step.priority)), step.attempts);
        },
        nb::arg("instance"), nb::arg("weights"), nb::arg("priority"), nb::arg("limit"),
        nb::arg("attempts"), nb::arg("seed"), nb::arg("seconds"),
        "Offsets of the first plan below the limit, empty without one; the weights and priorities "
        "to go on from; and the attempts made.");
}

}  // namespace gapless::bindings
