#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

#include "allocator/page_heap.h"
#include "allocator/step_plan.h"
#include "bindings.h"

namespace gapless::runtime {

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copy(const Array<T>& array) {
    return {array.data(), array.data() + array.shape(0)};
}

}  // namespace

void bind_plan(nb::module_& module) {
    nb::class_<StreamPlan>(module, "StreamPlan", "The requests of one stream, and their offsets.")
        .def(
            "__init__",
            [](StreamPlan* made, Stream stream, const Array<std::int64_t>& bytes,
               const Array<std::int64_t>& offset, const Array<std::int32_t>& freed_begin,
               const Array<std::int32_t>& freed) {
                new (made)
                    StreamPlan{stream, copy(bytes), copy(offset), copy(freed_begin), copy(freed)};
            },
            "stream"_a, "bytes"_a, "offset"_a, "freed_begin"_a, "freed"_a);
    module.attr("ESCAPES") = kEscapes;
    module.attr("BLOCK_ALIGNMENT") = kBlockAlignment;

    nb::enum_<MismatchKind>(module, "MismatchKind", "Why a request is not served by the plan.")
        .value("SIZE", MismatchKind::size)
        .value("EXTRA", MismatchKind::extra)
        .value("STREAM", MismatchKind::stream)
        .value("IN_USE", MismatchKind::in_use);
    nb::class_<Mismatch>(module, "Mismatch", "A request that is not served by the plan.")
        .def_ro("kind", &Mismatch::kind)
        .def_ro("step", &Mismatch::step)
        .def_ro("stream", &Mismatch::stream)
        .def_ro("bytes", &Mismatch::bytes)
        .def_ro("request", &Mismatch::request)
        .def_ro("expected_bytes", &Mismatch::expected_bytes)
        .def_ro("in_the_way", &Mismatch::in_the_way)
        .def_ro("number", &Mismatch::number);
}

}  // namespace gapless::runtime
