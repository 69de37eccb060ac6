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

void bind_figures(nb::module_& module) {
    nb::class_<GraphFigures>(module, "GraphFigures", "Bytes and counts of captured graphs.")
        .def_ro("pools", &GraphFigures::pools)
        .def_ro("scratch_bytes", &GraphFigures::scratch_bytes)
        .def_ro("own_bytes", &GraphFigures::own_bytes)
        .def_ro("default_bytes", &GraphFigures::default_bytes)
        .def_ro("expandable_bytes", &GraphFigures::expandable_bytes)
        .def_ro("live_peak", &GraphFigures::live_peak)
        .def_ro("filled_pools", &GraphFigures::filled_pools)
        .def_ro("eager_requests", &GraphFigures::eager_requests)
        .def_ro("refused_requests", &GraphFigures::refused_requests);
    nb::class_<StepEnd>(module, "StepEnd", "How the requests of a step went.")
        .def_ro("kind", &StepEnd::kind)
        .def_ro("planned", &StepEnd::planned)
        .def_ro("is_planned", &StepEnd::is_planned)
        .def_ro("escaping", &StepEnd::escaping)
        .def_ro("unexpected", &StepEnd::unexpected);
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
        .def_ro("unexpected_requests", &Figures::unexpected_requests)
        .def_ro("default_bytes", &Figures::default_bytes)
        .def_ro("default_peak", &Figures::default_peak)
        .def_ro("expandable_bytes", &Figures::expandable_bytes)
        .def_ro("expandable_peak", &Figures::expandable_peak)
        .def_ro("requests_above_shadow", &Figures::requests_above_shadow)
        .def_ro("moved_bytes", &Figures::moved_bytes)
        .def_ro("refused_frees", &Figures::refused_frees)
        .def_ro("paused_bytes", &Figures::paused_bytes)
        .def_ro("kept_bytes", &Figures::kept_bytes)
        .def_ro("graphs", &Figures::graphs);
}

void bind_overwrites(nb::module_& module) {
    nb::class_<Tenant>(module, "Tenant", "A block that was, or came to be, where was written.")
        .def_ro("address", &Tenant::address)
        .def_ro("bytes", &Tenant::bytes)
        .def_ro("stream", &Tenant::stream)
        .def_ro("request", &Tenant::request)
        .def_ro("step", &Tenant::step);
    nb::class_<Overwrite>(module, "Overwrite", "Free memory that somebody wrote to.")
        .def_ro("address", &Overwrite::address)
        .def_ro("offset", &Overwrite::offset)
        .def_ro("bytes", &Overwrite::bytes)
        .def_ro("before", &Overwrite::before)
        .def_ro("after", &Overwrite::after);
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

// Returns segments as PyTorch's snapshots have them.
nb::list snapshot_of(const ServingAllocator& allocator) {
    std::vector<SegmentOfBlocks> segments;
    {
        const nb::gil_scoped_release released;
        segments = allocator.segments();
    }
    nb::list listed;
    for (const auto& [segment, blocks, is_planned] : segments) {
        nb::list entries;
        for (const GaplessBlock& block : blocks) {
            nb::dict entry;
            entry["address"] = block.address;
            entry["size"] = block.bytes;
            entry["requested_size"] = block.requested_bytes;
            entry["state"] = block.is_allocated ? "active_allocated"
                             : block.is_active  ? "active_awaiting_free"
                                                : "inactive";
            entries.append(entry);
        }
        nb::dict entry;
        entry["address"] = segment.address;
        entry["total_size"] = segment.bytes;
        entry["stream"] = segment.stream;
        entry["is_expandable"] = !segment.is_plain;
        entry["is_planned"] = is_planned;
        entry["blocks"] = entries;
        listed.append(entry);
    }
    return listed;
}

}  // namespace

void bind_allocator(nb::module_& module) {
    bind_figures(module);
    bind_overwrites(module);
    nb::class_<ServingAllocator>(module, "ServingAllocator",
                                 "What PyTorch's allocator can ask first.")
        .def("allocate", &ServingAllocator::allocate, "bytes"_a, "stream"_a = 0, WithoutPython())
        .def("begin_pool", &ServingAllocator::begin_pool, "pool"_a, WithoutPython())
        .def("allocate_in_pool", &ServingAllocator::allocate_in_pool, "pool"_a, "bytes"_a,
             "stream"_a = 0, WithoutPython())
        .def("end_capture", &ServingAllocator::end_capture, "pool"_a, WithoutPython())
        .def("end_pool", &ServingAllocator::end_pool, "pool"_a, WithoutPython())
        .def("free", &ServingAllocator::free, "address"_a, WithoutPython())
        .def("use_on", &ServingAllocator::use_on, "address"_a, "stream"_a, WithoutPython())
        .def("give_back", &ServingAllocator::give_back, WithoutPython())
        .def("limit", &ServingAllocator::limit, "bytes"_a, WithoutPython())
        .def("segments", &snapshot_of, nb::sig("def segments(self) -> list[dict[str, object]]"),
             "The segments, as PyTorch's snapshots have them.");
    nb::class_<PlannedAllocator, ServingAllocator>(
        module, "PlannedAllocator",
        "Every request at its planned place, or at the next best one.\n\n"
        "One lock guards it all, and is not held while a listener runs.")
        .def(nb::init<DeviceMemory&, bool, bool, double>(), "memory"_a, "is_plain"_a = false,
             "is_checked"_a = false, "share_of_moves"_a = MoveBudget::kUnlimited,
             nb::keep_alive<1, 2>())
        .def("begin_step", &PlannedAllocator::begin_step, "label"_a = 0, WithoutPython())
        .def("end_step", &PlannedAllocator::end_step, "completed"_a = true, WithoutPython())
        .def("to_plan", &PlannedAllocator::to_plan, WithoutPython())
        .def("kinds", &PlannedAllocator::kinds, WithoutPython())
        .def_prop_ro("has_plans", &PlannedAllocator::has_plans)
        .def(
            "blocks_in_use",
            [](const PlannedAllocator& allocator) {
                std::vector<std::int64_t> values;
                for (const auto& row : allocator.blocks_in_use()) {
                    values.insert(values.end(), row.begin(), row.end());
                }
                return to_rows(std::move(values), 5);
            },
            "Rows by address: address, bytes, stream, kind of step or -1, request in it.")
        .def("adopt", &PlannedAllocator::adopt, "plans"_a, "arena_bytes"_a, WithoutPython())
        .def("set_exclusive_graphs", &PlannedAllocator::set_exclusive_graphs, "is_exclusive"_a)
        .def("lend", &PlannedAllocator::lend, "pool"_a, WithoutPython())
        .def("set_tag", &PlannedAllocator::set_tag, "tag"_a)
        .def("pause", &PlannedAllocator::pause, "tag"_a.none(), "keeps"_a, WithoutPython())
        .def("resume", &PlannedAllocator::resume, "tag"_a.none(), WithoutPython())
        .def("paused_blocks", &PlannedAllocator::paused_blocks, WithoutPython())
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
