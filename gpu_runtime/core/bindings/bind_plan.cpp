#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/block.h"
#include "allocator/hand_overs.h"
#include "allocator/mismatch.h"
#include "allocator/step_kind.h"
#include "allocator/step_plan.h"
#include "bindings.h"
#include "numpy_arrays.h"

namespace gapless::runtime {

namespace {

void bind_kinds(nb::module_& module) {
    nb::class_<StepKind>(module, "StepKind", "Steps with the same requests and frees.")
        .def_ro("number", &StepKind::number)
        .def_ro("label", &StepKind::label)
        .def_ro("seen", &StepKind::seen)
        .def_prop_ro(
            "requests",
            [](const StepKind& kind) {
                std::vector<std::int64_t> rows;
                for (const StepRequest& request : kind.requests) {
                    rows.insert(rows.end(), {static_cast<std::int64_t>(request.stream),
                                             request.bytes, request.end});
                }
                return to_rows(std::move(rows), 3);
            },
            nb::rv_policy::automatic,
            "Rows (stream, bytes, end); the end of a block that outlives its step is "
            "OUTLIVES.")
        .def_prop_ro(
            "late_frees",
            [](const StepKind& kind) {
                std::vector<std::int64_t> rows;
                for (const LateFree& late : kind.late_frees) {
                    rows.insert(rows.end(), {late.kind, late.request, late.at, late.age});
                }
                return to_rows(std::move(rows), 4);
            },
            nb::rv_policy::automatic,
            "Rows (kind, request, time, age) of blocks that an earlier step requested. The age is "
            "1 "
            "if that was the last step of its kind.");
    nb::class_<StepPlan>(module, "StepPlan", "What a kind of step asks for, and where it lies.")
        .def(
            "__init__",
            [](StepPlan* made, std::int64_t kind, const Array<std::int64_t>& stream,
               const Array<std::int64_t>& bytes, const Array<std::int64_t>& offset,
               const std::optional<Array<std::uint64_t>>& beside) {
                new (made) StepPlan{kind, copy_streams(stream), copy(bytes), copy(offset),
                                    beside ? copy(*beside) : std::vector<Address>(offset.shape(0))};
            },
            "kind"_a, "stream"_a, "bytes"_a, "offset"_a, "beside"_a.none() = nb::none(),
            "Offsets count from the block in use at the address `beside`, or from the arena at 0.")
        .def_ro("handed_over", &StepPlan::handed_over);
    module.def(
        "with_hand_overs",
        [](std::vector<StepPlan> plans, std::size_t arena_bytes) {
            require_plans(plans, arena_bytes);
            mark_hand_overs(plans);
            return plans;
        },
        "plans"_a, "arena_bytes"_a, WithoutPython(),
        "Mark the requests whose bytes another stream gets next, in a step of any plan.");
    module.attr("NO_PLACE") = kNoPlace;
    module.attr("BETWEEN") = kBetween;
    module.attr("OUTLIVES") = kOutlives;
}

}  // namespace

void bind_plan(nb::module_& module) {
    module.attr("BLOCK_ALIGNMENT") = kBlockAlignment;

    nb::enum_<MismatchKind>(module, "MismatchKind", "Why a step leaves its plan.")
        .value("SIZE", MismatchKind::size)
        .value("EXTRA", MismatchKind::extra)
        .value("STREAM", MismatchKind::stream)
        .value("IN_USE", MismatchKind::in_use);
    nb::class_<Mismatch>(module, "Mismatch", "A request at which a step leaves its plan.")
        .def_ro("kind", &Mismatch::kind)
        .def_ro("step", &Mismatch::step)
        .def_ro("stream", &Mismatch::stream)
        .def_ro("bytes", &Mismatch::bytes)
        .def_ro("request", &Mismatch::request)
        .def_ro("expected_bytes", &Mismatch::expected_bytes)
        .def_ro("number", &Mismatch::number);
    bind_kinds(module);
}

}  // namespace gapless::runtime
