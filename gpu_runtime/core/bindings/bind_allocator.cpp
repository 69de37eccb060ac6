#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "allocator/entry_points.h"
#include "allocator/planned_allocator.h"
#include "bindings.h"

namespace gapless::runtime {

namespace {

void bind_figures(nb::module_& module) {
    nb::class_<StepCounts>(module, "StepCounts", "Requests of one planned step.")
        .def_ro("planned", &StepCounts::planned)
        .def_ro("escaping", &StepCounts::escaping)
        .def_ro("fallback", &StepCounts::fallback)
        .def_ro("missing", &StepCounts::missing);
    nb::class_<Figures>(module, "Figures", "Bytes of the moment, peaks and counts since a reset.")
        .def_ro("requested_bytes", &Figures::requested_bytes)
        .def_ro("requested_peak", &Figures::requested_peak)
        .def_ro("allocated_bytes", &Figures::allocated_bytes)
        .def_ro("allocated_peak", &Figures::allocated_peak)
        .def_ro("reserved_bytes", &Figures::reserved_bytes)
        .def_ro("reserved_peak", &Figures::reserved_peak)
        .def_ro("heap_bytes", &Figures::heap_bytes)
        .def_ro("arena_bytes", &Figures::arena_bytes)
        .def_ro("steps", &Figures::steps)
        .def_ro("planned_steps", &Figures::planned_steps)
        .def_ro("planned_requests", &Figures::planned_requests)
        .def_ro("escaping_requests", &Figures::escaping_requests)
        .def_ro("fallback_requests", &Figures::fallback_requests)
        .def_ro("fallback_bytes", &Figures::fallback_bytes)
        .def_ro("missing_requests", &Figures::missing_requests)
        .def_ro("refused_frees", &Figures::refused_frees);
}

// Rows (kind, request, bytes, stream).
nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>> rows_of(const std::vector<LogEntry>& log) {
    auto* rows = new std::vector<std::int64_t>;
    nb::capsule owner(rows,
                      [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
    rows->reserve(4 * log.size());
    for (const LogEntry& entry : log) {
        rows->insert(rows->end(), {static_cast<std::int64_t>(entry.kind), entry.id, entry.bytes,
                                   static_cast<std::int64_t>(entry.stream)});
    }
    return {rows->data(), {log.size(), 4}, owner};
}

// A request must not fail, and its block not be lost, because somebody could not be told of it.
std::function<void(const Mismatch&)> without_errors(std::function<void(const Mismatch&)> listener) {
    if (!listener) return {};
    return [listener = std::move(listener)](const Mismatch& mismatch) {
        try {
            listener(mismatch);
        } catch (nb::python_error& error) {
            const nb::gil_scoped_acquire held;
            if (error.matches(PyExc_KeyboardInterrupt)) {
                PyErr_SetInterrupt();
            } else {
                error.discard_as_unraisable("the listener to mismatches");
            }
        }
    };
}

}  // namespace

void bind_allocator(nb::module_& module) {
    bind_figures(module);
    nb::enum_<StepMode>(module, "StepMode", "What is done with the requests of a step.")
        .value("UNPLANNED", StepMode::unplanned)
        .value("PROFILED", StepMode::profiled)
        .value("PLANNED", StepMode::planned);
    nb::enum_<LogEntry::Kind>(module, "LogKind", "What a row of a log tells of.",
                              nb::is_arithmetic())
        .value("REQUEST", LogEntry::Kind::request)
        .value("FREE", LogEntry::Kind::free)
        .value("STEP_BEGINS", LogEntry::Kind::step_begins)
        .value("STEP_ENDS", LogEntry::Kind::step_ends);
    nb::class_<PlannedAllocator>(module, "PlannedAllocator",
                                 "A step's requests at planned places, all else from a heap.\n\n"
                                 "One lock guards it all, and is not held while a listener runs.")
        .def(nb::init<DeviceMemory&>(), "memory"_a, nb::keep_alive<1, 2>())
        .def("allocate", &PlannedAllocator::allocate, "bytes"_a, "stream"_a = 0, WithoutPython())
        .def("free", &PlannedAllocator::free, "address"_a, WithoutPython())
        .def("use_on", &PlannedAllocator::use_on, "address"_a, "stream"_a, WithoutPython())
        .def("begin_step", &PlannedAllocator::begin_step, "mode"_a, WithoutPython())
        .def("end_step", &PlannedAllocator::end_step, WithoutPython())
        .def("drop_plan", &PlannedAllocator::drop_plan, WithoutPython())
        .def(
            "adopt_plan",
            [](PlannedAllocator& allocator, std::vector<StreamPlan> streams, std::size_t bytes) {
                allocator.adopt_plan(StepPlan(std::move(streams), bytes));
            },
            "streams"_a, "arena_bytes"_a, WithoutPython())
        .def("give_back", &PlannedAllocator::give_back, WithoutPython())
        .def("take_log", [](PlannedAllocator& allocator) { return rows_of(allocator.take_log()); })
        .def("figures", &PlannedAllocator::figures, WithoutPython())
        .def("reset_peaks", &PlannedAllocator::reset_peaks, WithoutPython())
        .def("mismatches", &PlannedAllocator::mismatches, WithoutPython())
        .def("mismatch_counts", &PlannedAllocator::mismatch_counts, WithoutPython())
        .def(
            "on_mismatch",
            [](PlannedAllocator& allocator, std::function<void(const Mismatch&)> listener) {
                allocator.on_mismatch(without_errors(std::move(listener)));
            },
            "listener"_a.none())
        .def("check", &PlannedAllocator::check, WithoutPython());
    // The allocator is never destroyed: tensors are freed until the process is gone.
    module.def(
        "install",
        [](int device, PlannedAllocator& allocator) {
            install(device, allocator);
            nb::find(allocator).inc_ref();
        },
        "device"_a, "allocator"_a);
}

}  // namespace gapless::runtime
