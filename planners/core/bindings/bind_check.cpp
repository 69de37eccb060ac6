#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "arrays.h"
#include "referee/check.h"

namespace gapless::bindings {

void bind_check(nb::module_& module) {
    module.def(
        "find_overlap_in_time",
        [](Array<std::int64_t> offset, Array<std::int64_t> size, Table<std::int64_t> rows) {
            const auto offsets = copy(offset), sizes = copy(size);
            const auto segments = to_segments(rows, static_cast<std::int64_t>(sizes.size()));
            return without_python(kNoTimeLimit, [&](Stop& stop) {
                return find_overlap_in_time({offsets, sizes}, segments, stop);
            });
        },
        nb::arg("offset"), nb::arg("size"), nb::arg("segments"),
        "Two tensors that share a byte and a step, if any.");

    nb::class_<DescendantSafety>(module, "DescendantSafety",
                                 "What a graph lets share bytes, by what descends from each node.")
        .def(
            "__init__",
            [](DescendantSafety* self, Array<std::int32_t> stream, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Table<std::int32_t> control) {
                const auto streams = copy(stream), producers = copy(producer);
                const auto offsets = copy(consumer_offsets);
                const auto readers = copy(consumers), arcs = copy(control, "control", 2);
                new (self) DescendantSafety(without_python(kNoTimeLimit, [&](Stop& stop) {
                    return DescendantSafety({streams, producers, offsets, readers, arcs}, stop);
                }));
            },
            nb::arg("stream"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("control"))
        .def(
            "find_overlap",
            [](const DescendantSafety& safety, Array<std::int64_t> offset,
               Array<std::int64_t> size) {
                const auto offsets = copy(offset), sizes = copy(size);
                return without_python(kNoTimeLimit, [&](Stop& stop) {
                    return safety.find_overlap({offsets, sizes}, stop);
                });
            },
            nb::arg("offset"), nb::arg("size"), "Two unsafe tensors that share a byte, if any.");
}

}  // namespace gapless::bindings
