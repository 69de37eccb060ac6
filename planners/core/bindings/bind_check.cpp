#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "arrays.h"
#include "check.h"

namespace gapless::bindings {

namespace {

PlacedTensors placed(const Array<std::int64_t>& offset, const Array<std::int64_t>& size) {
    if (offset.shape(0) != size.shape(0)) {
        throw std::invalid_argument("one offset a tensor is needed");
    }
    return {view(offset), view(size)};
}

}  // namespace

void bind_check(nb::module_& module) {
    module.def(
        "find_overlap_in_time",
        [](Array<std::int64_t> offset, Array<std::int64_t> size, Table<std::int64_t> rows) {
            const auto segments = to_segments(rows, static_cast<std::int32_t>(size.shape(0)));
            Stop stop = stop_after(std::numeric_limits<double>::infinity());
            nb::gil_scoped_release without_python;
            return find_overlap_in_time(placed(offset, size), segments, stop);
        },
        nb::arg("offset"), nb::arg("size"), nb::arg("segments"),
        "Two tensors that share a byte and a step, if any.");

    nb::class_<DescendantSafety>(module, "DescendantSafety",
                                 "What a graph lets share bytes, by descendant sets.")
        .def(
            "__init__",
            [](DescendantSafety* self, Array<std::int32_t> stream, Array<std::int32_t> producer,
               Array<std::int64_t> consumer_offsets, Array<std::int32_t> consumers,
               Table<std::int32_t> control) {
                Stop stop = stop_after(std::numeric_limits<double>::infinity());
                nb::gil_scoped_release without_python;
                new (self) DescendantSafety({view(stream), view(producer), view(consumer_offsets),
                                             view(consumers), view(control)},
                                            stop);
            },
            nb::arg("stream"), nb::arg("producer"), nb::arg("consumer_offsets"),
            nb::arg("consumers"), nb::arg("control"))
        .def(
            "find_overlap",
            [](const DescendantSafety& safety, Array<std::int64_t> offset,
               Array<std::int64_t> size) {
                Stop stop = stop_after(std::numeric_limits<double>::infinity());
                nb::gil_scoped_release without_python;
                return safety.find_overlap(placed(offset, size), stop);
            },
            nb::arg("offset"), nb::arg("size"), "Two unsafe tensors that share a byte, if any.");
}

}  // namespace gapless::bindings
