#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/planned_allocator.h"
#include "allocator/serving_table.h"
#include "bindings.h"
#include "numpy_arrays.h"

namespace gapless::runtime {

namespace {

constexpr std::size_t kBlockColumns = 5;

void bind_figures(nb::module_& module) {
    nb::class_<StepEnd>(module, "StepEnd", "How the requests of a step went.")
        .def_ro("kind", &StepEnd::kind)
        .def_ro("planned", &StepEnd::planned)
        .def_ro("escaping", &StepEnd::escaping)
        .def_ro("grown", &StepEnd::grown)
        .def_ro("unexpected", &StepEnd::unexpected)
        .def_ro("missing", &StepEnd::missing)
        .def_ro("in_use", &StepEnd::in_use);
    nb::class_<Figures>(module, "Figures", "Bytes of the moment, peaks and counts since a reset.")
        .def_ro("requested_bytes", &Figures::requested_bytes)
        .def_ro("requested_peak", &Figures::requested_peak)
        .def_ro("allocated_bytes", &Figures::allocated_bytes)
        .def_ro("allocated_peak", &Figures::allocated_peak)
        .def_ro("reserved_bytes", &Figures::reserved_bytes)
        .def_ro("reserved_peak", &Figures::reserved_peak)
        .def_ro("arena_bytes", &Figures::arena_bytes)
        .def_ro("live_peak", &Figures::live_peak)
        .def_ro("steps", &Figures::steps)
        .def_ro("planned_steps", &Figures::planned_steps)
        .def_ro("planned_requests", &Figures::planned_requests)
        .def_ro("escaping_requests", &Figures::escaping_requests)
        .def_ro("grown_requests", &Figures::grown_requests)
        .def_ro("fallback_requests", &Figures::fallback_requests)
        .def_ro("fallback_bytes", &Figures::fallback_bytes)
        .def_ro("missing_requests", &Figures::missing_requests)
        .def_ro("moved_bytes", &Figures::moved_bytes)
        .def_ro("refused_frees", &Figures::refused_frees)
        .def_ro("paused_bytes", &Figures::paused_bytes)
        .def_ro("kept_bytes", &Figures::kept_bytes);
}

void bind_overwrites(nb::module_& module) {
    nb::class_<Tenant>(module, "Tenant", "A block that was, or came to be, where was written.")
        .def_ro("address", &Tenant::address)
        .def_ro("bytes", &Tenant::bytes)
        .def_ro("stream", &Tenant::stream)
        .def_ro("request", &Tenant::request)
        .def_ro("kind", &Tenant::kind)
        .def_ro("slot", &Tenant::slot)
        .def_ro("step", &Tenant::step);
    nb::class_<Overwrite>(module, "Overwrite", "Free memory that somebody wrote to.")
        .def_ro("address", &Overwrite::address)
        .def_ro("offset", &Overwrite::offset)
        .def_ro("bytes", &Overwrite::bytes)
        .def_ro("before", &Overwrite::before)
        .def_ro("after", &Overwrite::after);
}

using Rows = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>;

// Rows (what, request, bytes, stream, kind, slot), in place.
Rows rows_of(std::vector<LogEntry>&& log) {
    auto* kept = new std::vector<LogEntry>(std::move(log));
    nb::capsule owner(kept,
                      [](void* p) noexcept { delete static_cast<std::vector<LogEntry>*>(p); });
    return {kept->data(), {kept->size(), kLogColumns}, owner};
}

// Rows (offset, bytes, request, kind, slot).
Rows rows_of(const std::vector<ArenaBlock>& blocks) {
    std::vector<std::int64_t> rows;
    for (const ArenaBlock& block : blocks) {
        rows.insert(rows.end(), {block.offset, block.bytes, block.request, block.kind, block.slot});
    }
    return to_rows(std::move(rows), kBlockColumns);
}

// A listener that fails must neither fail the request nor lose its block.
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
    bind_overwrites(module);
    nb::enum_<LogEntry::What>(module, "LogKind", "What a row of a log tells of.",
                              nb::is_arithmetic())
        .value("REQUEST", LogEntry::What::request)
        .value("FREE", LogEntry::What::free)
        .value("STEP_BEGINS", LogEntry::What::step_begins)
        .value("STEP_ENDS", LogEntry::What::step_ends);
    nb::class_<ServingAllocator>(module, "ServingAllocator",
                                 "What PyTorch's allocator can ask first.")
        .def("allocate", &ServingAllocator::allocate, "bytes"_a, "stream"_a = 0, WithoutPython())
        .def("free", &ServingAllocator::free, "address"_a, WithoutPython())
        .def("use_on", &ServingAllocator::use_on, "address"_a, "stream"_a, WithoutPython())
        .def("give_back", &ServingAllocator::give_back, WithoutPython());
    nb::class_<PlannedAllocator, ServingAllocator>(
        module, "PlannedAllocator",
        "Every request at its planned place, or at the next best one.\n\n"
        "One lock guards it all, and is not held while a listener runs.")
        .def(nb::init<DeviceMemory&, bool, bool>(), "memory"_a, "is_plain"_a = false,
             "is_checked"_a = false, nb::keep_alive<1, 2>())
        .def("begin_step", &PlannedAllocator::begin_step, "label"_a = 0, WithoutPython())
        .def("end_step", &PlannedAllocator::end_step, WithoutPython())
        .def(
            "adopt_book",
            [](PlannedAllocator& allocator, std::vector<KindPlan> kinds, std::size_t arena_bytes) {
                allocator.adopt_book(Book(std::move(kinds), arena_bytes));
            },
            "kinds"_a, "arena_bytes"_a, WithoutPython())
        .def(
            "adopt_book",
            [](PlannedAllocator& allocator, Book& book) { allocator.adopt_book(std::move(book)); },
            "book"_a, WithoutPython(), "The book is used up; it has no kinds afterwards.")
        .def("drop_book", &PlannedAllocator::drop_book, WithoutPython())
        .def("set_tag", &PlannedAllocator::set_tag, "tag"_a)
        .def("pause", &PlannedAllocator::pause, "tag"_a.none(), "keeps"_a, WithoutPython())
        .def("resume", &PlannedAllocator::resume, "tag"_a.none(), WithoutPython())
        .def("paused_blocks", &PlannedAllocator::paused_blocks, WithoutPython())
        .def("take_log", [](PlannedAllocator& allocator) { return rows_of(allocator.take_log()); })
        .def("blocks_in_arena",
             [](PlannedAllocator& allocator) { return rows_of(allocator.blocks_in_arena()); })
        .def("drop_log", &PlannedAllocator::drop_log, WithoutPython())
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
        .def_prop_ro("is_checked", &PlannedAllocator::is_checked)
        .def_prop_ro("is_plain", &PlannedAllocator::is_plain)
        .def_prop_ro("page_bytes", &PlannedAllocator::page_bytes)
        .def("take_overwrites", &PlannedAllocator::take_overwrites, "everywhere"_a = false,
             WithoutPython())
        .def("check", &PlannedAllocator::check, WithoutPython());
    // The allocator is never destroyed, because tensors are freed until the process ends.
    module.def(
        "install",
        [](int device, ServingAllocator& allocator) {
            install(device, allocator);
            nb::find(allocator).inc_ref();
        },
        "device"_a, "allocator"_a);
    // The table for PyTorch's decorated allocator, which declares it in the header serving.h.
    module.def("serving_table", [] { return reinterpret_cast<std::uintptr_t>(&serving_table()); });
}

}  // namespace gapless::runtime
