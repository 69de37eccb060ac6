#include <cstring>
#include <memory>

#include "arrays.h"
#include "model/graph.h"
#include "model/require.h"
#include "safety/safety.h"

namespace gapless::bindings {

namespace {

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<2>> to_matrix(const BitRows& rows) {
    require_table("a relation as bytes", static_cast<std::int64_t>(rows.rows()),
                  static_cast<std::int64_t>(rows.columns()), 8);
    auto cells = std::make_unique_for_overwrite<std::uint8_t[]>(rows.rows() * rows.columns());
    without_python(kNoTimeLimit, [&](Stop& stop) {
        for (std::size_t r = 0; r < rows.rows(); ++r) {
            stop.poll();
            for (std::size_t c = 0; c < rows.columns(); ++c)
                cells[r * rows.columns() + c] = rows.test(r, c);
        }
    });
    nb::capsule owner(cells.get(),
                      [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
    return {cells.release(), {rows.rows(), rows.columns()}, owner};
}

void bind_safety(nb::module_& module, const char* name, BitRows (*algorithm)(const Graph&, Stop&)) {
    module.def(
        name,
        [=](const Graph& graph) {
            return without_python(kNoTimeLimit, [&](Stop& stop) { return algorithm(graph, stop); });
        },
        nb::arg("graph"));
}

}  // namespace

void bind_graph(nb::module_& module) {
    module.attr("MOST_TABLE_BYTES") = kMostTableBytes;
    nb::class_<Graph>(module, "Graph", "A computation graph; see planners.model.graph.")
        .def(
            "__init__",
            [](Graph* self, Array<std::int32_t> stream, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Table<std::int32_t> control) {
                new (self) Graph(copy(stream), copy(producer), copy(consumer_offsets),
                                 copy(consumers), copy(control, "control", 2));
            },
            nb::arg("stream"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("control"));

    nb::class_<BitRows>(module, "BitRows", "A symmetric relation between tensors, as bits.")
        .def_prop_ro("tensors", &BitRows::rows)
        .def_prop_ro("bytes", [](const BitRows& rows) { return rows.rows() * rows.words() * 8; })
        .def("matrix", &to_matrix, "The relation as uint8, shape (tensors, tensors).")
        .def(
            "equals",
            [](const BitRows& a, const BitRows& b) {
                return a.rows() == b.rows() && a.columns() == b.columns() &&
                       std::memcmp(a.row(0), b.row(0), a.rows() * a.words() * 8) == 0;
            },
            nb::arg("other"));

    bind_safety(module, "unsafe_by_ancestors", unsafe_by_ancestors);
    bind_safety(module, "unsafe_by_last_ancestors", unsafe_by_last_ancestors);
    bind_safety(module, "unsafe_by_streams", unsafe_by_streams);
    bind_safety(module, "unsafe_by_clocks", unsafe_by_clocks);
    module.def(
        "rows_from_pairs",
        [](std::size_t tensors, Table<std::int64_t> pairs) {
            const auto listed = copy(pairs, "pairs", 2);
            nb::gil_scoped_release released;
            return rows_from_pairs(tensors, listed);
        },
        nb::arg("tensors"), nb::arg("pairs"));
}

}  // namespace gapless::bindings
