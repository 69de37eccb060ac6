#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <stdexcept>

#include "arrays.h"
#include "instance.h"

namespace gapless::bindings {

namespace {

// The columns of planners.blocks.Blocks; the handles keep them alive.
struct BlockColumns {
    Array<std::int64_t> offsets;
    Array<std::int32_t> members;
    Array<std::int64_t> before, size, modulus, residue, pinned;

    Blocks blocks() const {
        return {view(offsets), view(members), view(before), view(size),
                view(modulus), view(residue), view(pinned)};
    }
};

// An instance that no field decides the safety of yet. Needs the GIL.
Instance see(const Array<std::int64_t>& size, const BlockColumns& blocks) {
    auto columns = std::make_shared<std::pair<Array<std::int64_t>, BlockColumns>>(size, blocks);
    return {columns, view(columns->first), columns->second.blocks(), std::nullopt, nullptr};
}

}  // namespace

void bind_instance(nb::module_& module) {
    module.def(
        "section_ranges",
        [](std::int32_t tensors, Table<std::int64_t> rows) {
            const Sections sections(tensors, to_segments(rows, tensors));
            std::vector<std::int32_t> first, last;
            for (const SectionRange& range : sections.ranges()) {
                first.push_back(range.first);
                last.push_back(range.last);
            }
            return std::tuple(to_numpy(std::move(first)), to_numpy(std::move(last)),
                              sections.count());
        },
        nb::arg("tensors"), nb::arg("segments"),
        "First section and one past the last of each row (tensor, start, end), sorted by tensor; "
        "and the number of sections.");

    nb::class_<BlockColumns>(module, "Blocks", "What is placed as one piece; see planners.blocks.")
        .def(nb::init<Array<std::int64_t>, Array<std::int32_t>, Array<std::int64_t>,
                      Array<std::int64_t>, Array<std::int64_t>, Array<std::int64_t>,
                      Array<std::int64_t>>(),
             nb::arg("offsets"), nb::arg("members"), nb::arg("before"), nb::arg("size"),
             nb::arg("modulus"), nb::arg("residue"), nb::arg("pinned"));

    nb::class_<Instance>(module, "Instance",
                         "A problem as the core works on it, over columns that may not change.")
        .def_static(
            "from_segments",
            [](Array<std::int64_t> size, const BlockColumns& blocks, Table<std::int64_t> rows) {
                Instance instance = see(size, blocks);
                nb::gil_scoped_release without_python;
                const std::int32_t tensors = instance.tensor_count();
                instance.sections = Sections(tensors, to_segments(rows, tensors));
                return instance;
            },
            nb::arg("size"), nb::arg("blocks"), nb::arg("segments"),
            "Lifetimes decide: rows (tensor, start, end), sorted by tensor.")
        .def_static(
            "from_rows",
            [](Array<std::int64_t> size, const BlockColumns& blocks,
               std::shared_ptr<const BitRows> unsafe) {
                Instance instance = see(size, blocks);
                instance.unsafe_rows = std::move(unsafe);
                return instance;
            },
            nb::arg("size"), nb::arg("blocks"), nb::arg("unsafe"), "Rows of unsafe pairs decide.")
        .def(
            "with_rows",
            [](const Instance& instance) {
                nb::gil_scoped_release without_python;
                return instance.with_rows();
            },
            "The same problem with rows of unsafe pairs, also where lifetimes decide.")
        .def("conflicting_pins", &Instance::conflicting_pins)
        .def(
            "unsafe",
            [](const Instance& instance, std::int32_t a, std::int32_t b) {
                const auto exists = [&](std::int32_t t) {
                    return t >= 0 && t < instance.tensor_count();
                };
                if (!exists(a) || !exists(b)) throw nb::index_error("no such tensor");
                return a != b && instance.unsafe(a, b);
            },
            nb::arg("a"), nb::arg("b"))
        .def(
            "unsafe_with",
            [](const Instance& instance, std::int32_t tensor) {
                if (tensor < 0 || tensor >= instance.tensor_count()) {
                    throw nb::index_error("no such tensor");
                }
                return to_numpy(instance.unsafe_with(tensor));
            },
            nb::arg("tensor"), "The tensors that one is unsafe with, rising.")
        .def("unsafe_degrees",
             [](const Instance& instance) { return to_numpy(instance.unsafe_degrees()); })
        .def(
            "unsafe_pairs",
            [](const Instance& instance) {
                std::vector<std::int64_t> pairs;
                {
                    nb::gil_scoped_release without_python;
                    pairs = instance.unsafe_pairs();
                }
                return to_numpy_rows(std::move(pairs), 2);
            },
            "Every unsafe pair of tensors that both have bytes: rows (a, b) with a < b, sorted.")
        .def(
            "grow_clique",
            [](const Instance& instance, std::int64_t first, Array<std::int64_t> order) {
                const auto tensors = static_cast<std::int64_t>(instance.tensor_count());
                const auto exists = [&](std::int64_t t) { return t >= 0 && t < tensors; };
                if (!instance.unsafe_rows) throw std::invalid_argument("rows are needed");
                if (!exists(first) || !std::ranges::all_of(view(order), exists)) {
                    throw nb::index_error("no such tensor");
                }
                return to_numpy(instance.grow_clique(first, view(order)));
            },
            nb::arg("first"), nb::arg("order"),
            "Pairwise unsafe tensors: the first, and each of an order that is unsafe with all so "
            "far. Needs rows.");
}

}  // namespace gapless::bindings
