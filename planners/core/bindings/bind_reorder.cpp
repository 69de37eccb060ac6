#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <utility>

#include "arrays.h"
#include "model/require.h"
#include "reorder/down_set_search.h"
#include "reorder/first_orders.h"
#include "reorder/graph_columns.h"
#include "reorder/order_problem.h"
#include "reorder/order_walk.h"
#include "reorder/stream_order_search.h"
#include "reorder/stream_walk.h"

namespace gapless::bindings {

namespace {

// Members that all walks export: moves tried, and the best order of all calls.
template <class Walk>
nb::class_<Walk> bind_walk(nb::module_& module, const char* name, const char* doc) {
    return nb::class_<Walk>(module, name, doc)
        .def(
            "run",
            [](Walk& walk, std::int64_t moves, double seconds) {
                without_python(seconds, [&](Stop& stop) { walk.run(moves, stop); });
            },
            nb::arg("moves"), nb::arg("seconds"),
            "The best order is kept, also where the time is over.")
        .def_prop_ro("tried", &Walk::tried)
        .def_prop_ro(
            "best",
            [](const Walk& walk) { return to_numpy(std::vector<std::int32_t>(walk.best())); },
            nb::rv_policy::move);
}

}  // namespace

void bind_reorder(nb::module_& module) {
    nb::class_<OrderProblem>(module, "OrderProblem",
                             "What an order of a graph's nodes is judged by.")
        .def(
            "__init__",
            [](OrderProblem* self, std::int64_t nodes, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Table<std::int32_t> control, Array<std::int64_t> size) {
                new (self) OrderProblem(nodes, copy(producer), copy(consumer_offsets),
                                        copy(consumers), copy(control, "control", 2), copy(size));
            },
            nb::arg("nodes"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("control"), nb::arg("size"))
        .def(
            "peak",
            [](const OrderProblem& problem, Array<std::int32_t> order) {
                const auto nodes = copy(order);
                problem.require_order(nodes);
                return problem.peak(nodes);
            },
            nb::arg("order"), "Bytes alive at the largest step of an order.")
        .def(
            "forced_bytes",
            [](const OrderProblem& problem, double seconds) {
                return without_python(seconds,
                                      [&](Stop& stop) { return problem.forced_bytes(stop); });
            },
            nb::arg("seconds"), "Bytes that no order stays below.")
        .def(
            "order_by_growth",
            [](const OrderProblem& problem, bool from_end, double seconds) {
                return to_numpy(without_python(seconds, [&](Stop& stop) {
                    return from_end ? order_by_growth_from_end(problem, stop)
                                    : order_by_growth(problem, stop);
                }));
            },
            nb::arg("from_end"), nb::arg("seconds"));

    nb::enum_<OrderVerdict>(module, "OrderVerdict")
        .value("FOUND", OrderVerdict::kFound)
        .value("REFUTED", OrderVerdict::kRefuted)
        .value("STATE_LIMIT", OrderVerdict::kStateLimit);

    nb::class_<DownSetSearch>(module, "DownSetSearch",
                              "The least peak over all orders. One thread at a time.")
        .def(nb::init<std::shared_ptr<const OrderProblem>>(), nb::arg("problem"))
        .def(
            "run",
            [](DownSetSearch& search, std::int64_t floor, std::int64_t limit, std::int64_t states,
               double seconds) {
                return without_python(
                    seconds, [&](Stop& stop) { return search.run(floor, limit, states, stop); });
            },
            nb::arg("floor"), nb::arg("limit"), nb::arg("states"), nb::arg("seconds"),
            "Whether an order stays below the limit. `bound` holds where the time is over, too.")
        .def_prop_ro("bound", &DownSetSearch::bound)
        .def_prop_ro("taken", &DownSetSearch::taken)
        .def_prop_ro(
            "order",
            [](const DownSetSearch& search) {
                return to_numpy(std::vector<std::int32_t>(search.order()));
            },
            nb::rv_policy::move);

    bind_walk<OrderWalk>(module, "OrderWalk", "Local search over orders. One thread at a time.")
        .def(
            "__init__",
            [](OrderWalk* self, std::shared_ptr<const OrderProblem> problem,
               Array<std::int32_t> order, std::int64_t floor, std::uint64_t seed) {
                new (self) OrderWalk(std::move(problem), copy(order), floor, seed);
            },
            nb::arg("problem"), nb::arg("order"), nb::arg("floor"), nb::arg("seed"))
        .def_prop_ro("best_peak", &OrderWalk::best_peak);

    nb::class_<GraphColumns>(module, "GraphColumns",
                             "A graph whose nodes can be listed in another order.")
        .def(
            "__init__",
            [](GraphColumns* self, Array<std::int32_t> stream, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Table<std::int32_t> control, Array<std::int64_t> size) {
                GraphColumns columns{copy(stream),
                                     copy(producer),
                                     copy(consumer_offsets),
                                     copy(consumers),
                                     copy(control, "control", 2),
                                     copy(size)};
                columns.require(columns.stream.size());
                new (self) GraphColumns(std::move(columns));
            },
            nb::arg("stream"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("control"), nb::arg("size"));

    nb::class_<StreamOrderSearch>(
        module, "StreamOrderSearch",
        "The least heaviest antichain over all orders of streams. One thread at a time.")
        .def(nb::init<std::shared_ptr<const OrderProblem>, GraphColumns>(), nb::arg("problem"),
             nb::arg("columns"))
        .def(
            "run",
            [](StreamOrderSearch& search, std::int64_t floor, std::int64_t limit,
               std::int64_t flows, double seconds) {
                return without_python(
                    seconds, [&](Stop& stop) { return search.run(floor, limit, flows, stop); });
            },
            nb::arg("floor"), nb::arg("limit"), nb::arg("flows"), nb::arg("seconds"),
            "The best order is kept, also where the time is over.")
        .def_prop_ro("flows", &StreamOrderSearch::flows)
        .def_prop_ro(
            "order",
            [](const StreamOrderSearch& search) {
                return to_numpy(std::vector<std::int32_t>(search.order()));
            },
            nb::rv_policy::move);

    bind_walk<StreamWalk>(module, "StreamWalk",
                          "Local search over the orders of several streams. One thread at a time.")
        .def(
            "__init__",
            [](StreamWalk* self, std::shared_ptr<const OrderProblem> problem, GraphColumns columns,
               Array<std::int32_t> order, std::int64_t floor, std::uint64_t seed) {
                new (self)
                    StreamWalk(std::move(problem), std::move(columns), copy(order), floor, seed);
            },
            nb::arg("problem"), nb::arg("columns"), nb::arg("order"), nb::arg("floor"),
            nb::arg("seed"))
        .def_prop_ro("best_bytes", &StreamWalk::best_bytes,
                     "Heaviest antichain of the best order; -1 before one is known.");
}

}  // namespace gapless::bindings
