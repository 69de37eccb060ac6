#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <stdexcept>

#include "arrays.h"
#include "model/instance.h"
#include "model/require.h"

namespace gapless::bindings {

namespace {

// The columns of planners.model.blocks.Blocks, checked by require_blocks().
struct BlockColumns {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> members;
    std::vector<std::int64_t> before, size, modulus, residue, pinned;

    Blocks blocks() const { return {offsets, members, before, size, modulus, residue, pinned}; }
};

// Makes an instance that does not yet have a field that decides safety. Needs the GIL.
Instance see(const Array<std::int64_t>& size, std::shared_ptr<const BlockColumns> blocks) {
    struct Columns {
        std::vector<std::int64_t> size;
        std::shared_ptr<const BlockColumns> blocks;
    };
    const auto columns = std::make_shared<const Columns>(Columns{copy(size), std::move(blocks)});
    Instance instance{columns, columns->size, columns->blocks->blocks(), std::nullopt, nullptr};
    require_sizes(instance.size, instance.blocks);
    return instance;
}

}  // namespace

void bind_instance(nb::module_& module) {
    module.def(
        "section_ranges",
        [](std::int32_t tensors, Table<std::int64_t> rows) {
            const std::vector<Segment> segments = to_segments(rows, tensors);
            std::vector<std::int32_t> first, last;
            std::int32_t sections = 0;
            {
                nb::gil_scoped_release released;
                const CutTime time(segments);
                for (const SectionRange& range : time.ranges) {
                    first.push_back(range.first);
                    last.push_back(range.last);
                }
                sections = time.count;
            }
            return std::tuple(to_numpy(std::move(first)), to_numpy(std::move(last)), sections);
        },
        nb::arg("tensors"), nb::arg("segments"),
        "First section and one past the last of each row (tensor, start, end), sorted by tensor; "
        "and the number of sections.");

    nb::class_<BlockColumns>(module, "Blocks",
                             "What is placed as one piece; see planners.model.blocks.")
        .def(
            "__init__",
            [](BlockColumns* self, Array<std::int64_t> offsets, Array<std::int32_t> members,
               Array<std::int64_t> before, Array<std::int64_t> size, Array<std::int64_t> modulus,
               Array<std::int64_t> residue, Array<std::int64_t> pinned) {
                BlockColumns columns{copy(offsets), copy(members), copy(before), copy(size),
                                     copy(modulus), copy(residue), copy(pinned)};
                require_blocks(columns.blocks());
                new (self) BlockColumns(std::move(columns));
            },
            nb::arg("offsets"), nb::arg("members"), nb::arg("before"), nb::arg("size"),
            nb::arg("modulus"), nb::arg("residue"), nb::arg("pinned"));

    nb::class_<Instance>(module, "Instance", "A problem as the core works on it.")
        .def_static(
            "from_segments",
            [](Array<std::int64_t> size, std::shared_ptr<const BlockColumns> blocks,
               Table<std::int64_t> rows) {
                Instance instance = see(size, std::move(blocks));
                const std::vector<Segment> segments = to_segments(rows, instance.tensor_count());
                nb::gil_scoped_release released;
                instance.sections = Sections(instance.tensor_count(), segments);
                return instance;
            },
            nb::arg("size"), nb::arg("blocks"), nb::arg("segments"),
            "Lifetimes decide: rows (tensor, start, end), sorted by tensor.")
        .def_static(
            "from_rows",
            [](Array<std::int64_t> size, std::shared_ptr<const BlockColumns> blocks,
               std::shared_ptr<const BitRows> unsafe) {
                Instance instance = see(size, std::move(blocks));
                require_length("unsafe", unsafe->rows(), "tensor", instance.size.size());
                instance.unsafe_rows = std::move(unsafe);
                return instance;
            },
            nb::arg("size"), nb::arg("blocks"), nb::arg("unsafe"), "Rows of unsafe pairs decide.")
        .def_static(
            "from_graph",
            [](Array<std::int64_t> size, std::shared_ptr<const BlockColumns> blocks,
               std::shared_ptr<const Graph> graph) {
                Instance instance = see(size, std::move(blocks));
                require_length("producer", graph->tensor_count(), "tensor", instance.size.size());
                instance.stream_order = without_python(kNoTimeLimit, [&](Stop& stop) {
                    return std::make_shared<const StreamOrder>(std::move(graph), stop);
                });
                return instance;
            },
            nb::arg("size"), nb::arg("blocks"), nb::arg("graph"),
            "A graph decides, by a number a tensor and stream and without rows.")
        .def(
            "with_rows",
            [](const Instance& instance) {
                return without_python(kNoTimeLimit,
                                      [&](Stop& stop) { return instance.with_rows(stop); });
            },
            "The same problem with rows of unsafe pairs, whatever decides.")
        .def("conflicting_pins",
             [](const Instance& instance) {
                 return without_python(kNoTimeLimit,
                                       [&](Stop& stop) { return instance.conflicting_pins(stop); });
             })
        .def(
            "unsafe",
            [](const Instance& instance, std::int32_t a, std::int32_t b) {
                require_index("a", a, "tensors", instance.tensor_count());
                require_index("b", b, "tensors", instance.tensor_count());
                return a != b && instance.unsafe(a, b);
            },
            nb::arg("a"), nb::arg("b"))
        .def(
            "unsafe_with",
            [](const Instance& instance, std::int32_t tensor) {
                require_index("tensor", tensor, "tensors", instance.tensor_count());
                return to_numpy(instance.unsafe_with(tensor));
            },
            nb::arg("tensor"), "The tensors that one is unsafe with, rising.")
        .def("unsafe_degrees",
             [](const Instance& instance) {
                 return to_numpy(without_python(
                     kNoTimeLimit, [&](Stop& stop) { return instance.unsafe_degrees(stop); }));
             })
        .def(
            "unsafe_pairs",
            [](const Instance& instance) {
                return to_numpy_rows(
                    without_python(kNoTimeLimit,
                                   [&](Stop& stop) { return instance.unsafe_pairs(stop); }),
                    2);
            },
            "Every unsafe pair of tensors that both have bytes: rows (a, b) with a < b, sorted.")
        .def(
            "grow_clique",
            [](const Instance& instance, std::int64_t first, Array<std::int64_t> order) {
                if (!instance.unsafe_rows) {
                    throw std::invalid_argument("grow_clique: rows of unsafe pairs are needed");
                }
                const std::vector<std::int64_t> tensors = copy(order);
                require_index("first", first, "tensors", instance.tensor_count());
                for (const std::int64_t t : tensors) {
                    require_index("order", t, "tensors", instance.tensor_count());
                }
                return to_numpy(instance.grow_clique(first, tensors));
            },
            nb::arg("first"), nb::arg("order"),
            "Pairwise unsafe tensors: the first, and each of an order that is unsafe with all so "
            "far. Needs rows.");
}

}  // namespace gapless::bindings
