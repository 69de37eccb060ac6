#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/block.h"
#include "allocator/book.h"
#include "allocator/hand_overs.h"
#include "bindings.h"
#include "numpy_arrays.h"

namespace gapless::runtime {

namespace {

void bind_book(nb::module_& module) {
    nb::class_<KindPlan>(module, "KindPlan",
                         "What one kind of step asks for, and where it best lies.")
        .def(
            "__init__",
            [](KindPlan* made, std::int32_t label, const Array<std::int64_t>& stream,
               const Array<std::int64_t>& least, const Array<std::int64_t>& most,
               const Array<std::int64_t>& offset, const Array<std::int64_t>& spare) {
                new (made) KindPlan{label,        copy_streams(stream), copy(least), copy(most),
                                    copy(offset), copy(spare),          {}};
                made->handed_over.resize(made->slot_count());
            },
            "label"_a, "stream"_a, "least"_a, "most"_a, "offset"_a, "spare"_a)
        .def_ro("label", &KindPlan::label)
        .def_ro("handed_over", &KindPlan::handed_over)
        .def_prop_ro("slot_count", &KindPlan::slot_count);
    module.def(
        "with_hand_overs",
        [](std::vector<KindPlan> kinds, std::size_t arena_bytes) {
            require_kinds(kinds, arena_bytes);
            mark_hand_overs(kinds);
            return kinds;
        },
        "kinds"_a, "arena_bytes"_a, WithoutPython(),
        "Mark the requests whose bytes another stream gets next, in a step of any kind.");
    module.attr("NO_PLACE") = kNoPlace;
    module.attr("BETWEEN_STEPS") = kBetweenSteps;
    module.attr("FIRST_ROLE") = kFirstRole;

    nb::class_<Book::Place>(module, "Place", "Where a request best lies.")
        .def_ro("kind", &Book::Place::kind)
        .def_ro("slot", &Book::Place::slot)
        .def_ro("offset", &Book::Place::offset)
        .def_ro("spare", &Book::Place::spare)
        .def_ro("handed_over", &Book::Place::handed_over)
        .def_ro("mismatch", &Book::Place::mismatch);
    nb::class_<Book>(module, "Book",
                     "The kinds of step of a program; it predicts, and holds no memory.")
        .def(nb::init<std::vector<KindPlan>, std::size_t>(), "kinds"_a, "arena_bytes"_a,
             WithoutPython())
        .def_static(
            "with_hand_overs",
            [](std::vector<KindPlan> kinds, std::size_t arena_bytes) {
                require_kinds(kinds, arena_bytes);
                mark_hand_overs(kinds);
                return Book(std::move(kinds), arena_bytes);
            },
            "kinds"_a, "arena_bytes"_a, WithoutPython())
        .def_prop_ro("arena_bytes", &Book::arena_bytes)
        .def("begin_step", &Book::begin_step, "label"_a)
        .def("request", &Book::request, "stream"_a, "bytes"_a)
        .def("end_step", &Book::end_step);
}

}  // namespace

void bind_plan(nb::module_& module) {
    module.attr("BLOCK_ALIGNMENT") = kBlockAlignment;

    nb::enum_<MismatchKind>(module, "MismatchKind", "Why a request is not served by the plan.")
        .value("SIZE", MismatchKind::size)
        .value("EXTRA", MismatchKind::extra)
        .value("STREAM", MismatchKind::stream)
        .value("IN_USE", MismatchKind::in_use)
        .value("GROWN", MismatchKind::grown);
    nb::class_<Mismatch>(module, "Mismatch", "A request that is not served by the plan.")
        .def_ro("kind", &Mismatch::kind)
        .def_ro("step", &Mismatch::step)
        .def_ro("stream", &Mismatch::stream)
        .def_ro("bytes", &Mismatch::bytes)
        .def_ro("request", &Mismatch::request)
        .def_ro("expected_bytes", &Mismatch::expected_bytes)
        .def_ro("in_the_way", &Mismatch::in_the_way)
        .def_ro("number", &Mismatch::number)
        .def_ro("step_kind", &Mismatch::step_kind);
    bind_book(module);
}

}  // namespace gapless::runtime
