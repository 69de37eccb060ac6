#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "device/block_stamps.h"
#include "device/counting_memory.h"
#include "device/replayed_streams.h"
#include "device/segment_log.h"
#include "numpy_arrays.h"
#include "policies/gmlake.h"
#include "policies/pytorch_caching.h"
#include "policies/pytorch_expandable.h"
#include "policies/replay.h"
#include "policies/request_log.h"
#include "policies/serving_policy.h"
#include "policies/vpmm.h"

namespace gapless::runtime {

namespace {

constexpr std::size_t kSegmentColumns = 3;

void bind_calls(nb::module_& module) {
    nb::class_<DeviceCalls>(module, "DeviceCalls", "A number for each kind of call to a device.")
        .def_ro("reserve_range", &DeviceCalls::reserve_range)
        .def_ro("release_range", &DeviceCalls::release_range)
        .def_ro("create_pages", &DeviceCalls::create_pages)
        .def_ro("release_pages", &DeviceCalls::release_pages)
        .def_ro("map", &DeviceCalls::map)
        .def_ro("set_access", &DeviceCalls::set_access)
        .def_ro("unmap", &DeviceCalls::unmap)
        .def_ro("allocate_plain", &DeviceCalls::allocate_plain)
        .def_ro("release_plain", &DeviceCalls::release_plain)
        .def_ro("synchronize", &DeviceCalls::synchronize)
        .def_ro("record_event", &DeviceCalls::record_event)
        .def_ro("await_event", &DeviceCalls::await)
        .def_ro("make_wait", &DeviceCalls::make_wait)
        .def_ro("other", &DeviceCalls::other);
    nb::class_<CountingMemory, DeviceMemory>(
        module, "CountingMemory", "A device that counts what it is asked, and may time it.")
        .def(nb::init<DeviceMemory&, bool>(), "memory"_a, "is_timed"_a = false,
             nb::keep_alive<1, 2>())
        .def_prop_ro("calls", [](const CountingMemory& memory) { return memory.calls(); })
        .def_prop_ro("nanoseconds",
                     [](const CountingMemory& memory) { return memory.nanoseconds(); });
    nb::class_<SegmentLog, DeviceMemory>(module, "SegmentLog",
                                         "A device that remembers what memory came when.")
        .def(nb::init<DeviceMemory&>(), "memory"_a, nb::keep_alive<1, 2>())
        .def(
            "rows",
            [](const SegmentLog& log) {
                std::vector<std::int64_t> rows;
                rows.reserve(kSegmentColumns * log.entries().size());
                for (const SegmentEntry& entry : log.entries()) {
                    rows.insert(rows.end(), {static_cast<std::int64_t>(entry.address),
                                             static_cast<std::int64_t>(entry.bytes), entry.row});
                }
                return to_rows(std::move(rows), kSegmentColumns);
            },
            "Rows (address, bytes, row of the replay).");
}

void bind_replayed(nb::module_& module) {
    nb::class_<ReplayedStreams, DeviceMemory>(
        module, "ReplayedStreams",
        "A device on which the streams of a recorded run stand for some that there are.")
        .def(nb::init<DeviceMemory&, Stream>(), "memory"_a, "other"_a, nb::keep_alive<1, 2>())
        .def("stand_for", &ReplayedStreams::stand_for, "recorded"_a, "handle"_a)
        .def("finish", &ReplayedStreams::finish, "recorded"_a);
    nb::class_<Overwritten>(module, "Overwritten", "A block that was written to while it lived.")
        .def_ro("number", &Overwritten::comparison)
        .def_ro("address", &Overwritten::first)
        .def_ro("words", &Overwritten::words);
    nb::class_<BlockStamps, DeviceMemory>(
        module, "BlockStamps",
        "A device whose blocks are filled when they are handed out, and looked at when freed.")
        .def(nb::init<DeviceMemory&, DeviceMemory&>(), "memory"_a, "device"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("hand_out", &BlockStamps::hand_out, "number"_a, "address"_a, "bytes"_a)
        .def("take_back", &BlockStamps::take_back, "number"_a)
        .def("take_back_after", &BlockStamps::take_back_after, "number"_a, "stream"_a)
        .def("take_back_all", &BlockStamps::take_back_all)
        .def("found", &BlockStamps::found);
}

void bind_listing(nb::module_& module) {
    nb::class_<OnlineFigures>(module, "OnlineFigures", "Bytes of the moment, and peaks.")
        .def_ro("requested_bytes", &OnlineFigures::requested_bytes)
        .def_ro("requested_peak", &OnlineFigures::requested_peak)
        .def_ro("allocated_bytes", &OnlineFigures::allocated_bytes)
        .def_ro("allocated_peak", &OnlineFigures::allocated_peak)
        .def_ro("active_bytes", &OnlineFigures::active_bytes)
        .def_ro("active_peak", &OnlineFigures::active_peak)
        .def_ro("free_bytes", &OnlineFigures::free_bytes)
        .def_ro("reserved_bytes", &OnlineFigures::reserved_bytes)
        .def_ro("reserved_peak", &OnlineFigures::reserved_peak)
        .def_ro("segments", &OnlineFigures::segments);
    nb::enum_<OnlineState>(module, "OnlineState", "What a block of an online allocator is.")
        .value("ALLOCATED", OnlineState::allocated)
        .value("PENDING", OnlineState::pending)
        .value("FREE", OnlineState::free)
        .value("UNMAPPED", OnlineState::unmapped);
    nb::class_<OnlineBlock>(module, "OnlineBlock", "A stretch of a segment.")
        .def_ro("address", &OnlineBlock::address)
        .def_ro("bytes", &OnlineBlock::bytes)
        .def_ro("requested", &OnlineBlock::requested)
        .def_ro("state", &OnlineBlock::state);
    nb::class_<OnlineSegment>(module, "OnlineSegment", "Blocks side by side.")
        .def_ro("address", &OnlineSegment::address)
        .def_ro("bytes", &OnlineSegment::bytes)
        .def_ro("stream", &OnlineSegment::stream)
        .def_ro("blocks", &OnlineSegment::blocks);
}

void bind_online(nb::module_& module) {
    nb::class_<OnlineAllocator>(
        module, "OnlineAllocator",
        "Serves each request when it comes.\n\nIt and its device belong to one thread at a time.")
        .def("allocate", &OnlineAllocator::allocate, "bytes"_a, "stream"_a = 0)
        .def("free", &OnlineAllocator::free, "address"_a)
        .def("use_on", &OnlineAllocator::use_on, "address"_a, "stream"_a)
        .def("settle", &OnlineAllocator::settle)
        .def("give_back", &OnlineAllocator::give_back)
        .def("figures", [](const OnlineAllocator& allocator) { return allocator.figures(); })
        .def("reset_peaks", &OnlineAllocator::reset_peaks)
        .def("segments", &OnlineAllocator::segments)
        .def("check", &OnlineAllocator::check);
}

void bind_serving(nb::module_& module) {
    nb::class_<ServingPolicy, ServingAllocator>(
        module, "ServingPolicy",
        "An online allocator beneath PyTorch's.\n\nOne lock guards it and its device.")
        .def(nb::init<OnlineAllocator&, const CountingMemory&>(), "policy"_a, "memory"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("figures", &ServingPolicy::figures, WithoutPython())
        .def("reset_peaks", &ServingPolicy::reset_peaks, WithoutPython())
        .def("calls", &ServingPolicy::calls, WithoutPython())
        .def("nanoseconds", &ServingPolicy::nanoseconds, WithoutPython())
        .def("check", &ServingPolicy::check, WithoutPython());
}

using Divisions = std::vector<std::size_t>;

void bind_pytorch(nb::module_& module) {
    nb::class_<PytorchSettings>(module, "PytorchSettings",
                                "What PyTorch's users configure of its allocator, in bytes.")
        .def(
            "__init__",
            [](PytorchSettings* made, std::size_t max_split_bytes,
               std::size_t max_non_split_rounding_bytes, const Divisions& divisions,
               double garbage_collection_threshold, std::size_t large_segment_bytes,
               std::size_t expandable_page_bytes, double per_process_memory_fraction) {
                if (divisions.size() != PytorchSettings::kPowers) {
                    throw std::invalid_argument("field roundup_power2_divisions: " +
                                                std::to_string(PytorchSettings::kPowers) +
                                                " numbers, found " +
                                                std::to_string(divisions.size()));
                }
                PytorchSettings settings{
                    .max_split_bytes = max_split_bytes,
                    .max_non_split_rounding_bytes = max_non_split_rounding_bytes,
                    .roundup_power2_divisions = {},
                    .garbage_collection_threshold = garbage_collection_threshold,
                    .large_segment_bytes = large_segment_bytes,
                    .expandable_page_bytes = expandable_page_bytes,
                    .per_process_memory_fraction = per_process_memory_fraction};
                std::ranges::copy(divisions, settings.roundup_power2_divisions.begin());
                settings.validate();
                new (made) PytorchSettings(settings);
            },
            "max_split_bytes"_a = PytorchSettings::kUnlimited,
            "max_non_split_rounding_bytes"_a = PytorchSettings().max_non_split_rounding_bytes,
            "roundup_power2_divisions"_a = Divisions(PytorchSettings::kPowers, 0),
            "garbage_collection_threshold"_a = 0.0,
            "large_segment_bytes"_a = PytorchSettings().large_segment_bytes,
            "expandable_page_bytes"_a = 0, "per_process_memory_fraction"_a = 1.0)
        .def("rounded", &PytorchSettings::rounded, "requested"_a)
        .def("segment_for", &PytorchSettings::segment_for, "bytes"_a);
    nb::class_<PytorchCaching, OnlineAllocator>(module, "PytorchCaching",
                                                "PyTorch's allocator as it is by default.")
        .def(nb::init<DeviceMemory&, const PytorchSettings&>(), "memory"_a,
             "settings"_a = PytorchSettings(), nb::keep_alive<1, 2>());
    nb::class_<PytorchExpandable, OnlineAllocator>(module, "PytorchExpandable",
                                                   "PyTorch's allocator with expandable segments.")
        .def(nb::init<DeviceMemory&, const PytorchSettings&>(), "memory"_a,
             "settings"_a = PytorchSettings(), nb::keep_alive<1, 2>());
}

void bind_gmlake(nb::module_& module) {
    nb::class_<GmlakeRules>(module, "GmlakeRules", "The constants of virtual memory stitching.")
        .def(
            "__init__",
            [](GmlakeRules* made, std::size_t chunk_bytes, std::size_t fragmentation_limit_bytes,
               bool limits_blocks, std::size_t most_stitched, std::size_t most_stitched_bytes) {
                new (made) GmlakeRules{.chunk_bytes = chunk_bytes,
                                       .fragmentation_limit_bytes = fragmentation_limit_bytes,
                                       .limits_blocks = limits_blocks,
                                       .most_stitched = most_stitched,
                                       .most_stitched_bytes = most_stitched_bytes};
            },
            "chunk_bytes"_a = GmlakeRules().chunk_bytes,
            "fragmentation_limit_bytes"_a = GmlakeRules().fragmentation_limit_bytes,
            "limits_blocks"_a = GmlakeRules().limits_blocks,
            "most_stitched"_a = GmlakeRules().most_stitched,
            "most_stitched_bytes"_a = GmlakeRules().most_stitched_bytes);
    nb::class_<GmlakeStates>(module, "GmlakeStates", "How often a request found what it found.")
        .def_ro("exact", &GmlakeStates::exact)
        .def_ro("single", &GmlakeStates::single)
        .def_ro("whole", &GmlakeStates::whole)
        .def_ro("multiple", &GmlakeStates::multiple)
        .def_ro("insufficient", &GmlakeStates::insufficient)
        .def_ro("out_of_memory", &GmlakeStates::out_of_memory);
    nb::class_<Gmlake, OnlineAllocator>(module, "Gmlake", "Stitches free blocks that are apart.")
        .def(nb::init<DeviceMemory&, const GmlakeRules&>(), "memory"_a, "rules"_a = GmlakeRules(),
             nb::keep_alive<1, 2>())
        .def("states", [](const Gmlake& allocator) { return allocator.states(); })
        .def_prop_ro("stitched_count", &Gmlake::stitched_count)
        .def_prop_ro("primitive_count", &Gmlake::primitive_count);
}

void bind_vpmm(nb::module_& module) {
    nb::class_<VpmmSettings>(module, "VpmmSettings", "The constants of VPMM's pool.")
        .def(
            "__init__",
            [](VpmmSettings* made, std::size_t page_bytes, std::size_t pages,
               std::size_t chunk_bytes) {
                new (made) VpmmSettings{
                    .page_bytes = page_bytes, .pages = pages, .chunk_bytes = chunk_bytes};
            },
            "page_bytes"_a = VpmmSettings().page_bytes, "pages"_a = VpmmSettings().pages,
            "chunk_bytes"_a = VpmmSettings().chunk_bytes);
    nb::enum_<VpmmState>(module, "VpmmState", "What a region of VPMM is.")
        .value("LIVE", VpmmState::live)
        .value("PENDING", VpmmState::pending)
        .value("FREE", VpmmState::free)
        .value("FRESH", VpmmState::fresh)
        .value("HOLE", VpmmState::hole)
        .value("ZOMBIE", VpmmState::zombie);
    nb::class_<VpmmView>(module, "VpmmView", "A region of VPMM.")
        .def_ro("address", &VpmmView::address)
        .def_ro("bytes", &VpmmView::bytes)
        .def_ro("state", &VpmmView::state)
        .def_ro("stream", &VpmmView::stream);
    nb::class_<Vpmm, OnlineAllocator>(module, "Vpmm", "Moves pages to where they are needed.")
        .def(nb::init<DeviceMemory&, const VpmmSettings&>(), "memory"_a,
             "settings"_a = VpmmSettings(), nb::keep_alive<1, 2>())
        .def("regions", &Vpmm::regions, "By address.")
        .def("keep_stages", &Vpmm::keep_stages)
        .def("stages", &Vpmm::stages, "The regions after each step of the last request's phase 2.");
}

// Returns a function that lets Python handle signals, at most every 20 ms. It acquires the GIL for
// this.
std::function<void()> heeding_signals() {
    using Clock = std::chrono::steady_clock;
    return [asked = Clock::now()]() mutable {
        const auto now = Clock::now();
        if (now - asked < std::chrono::milliseconds(20)) return;
        asked = now;
        const nb::gil_scoped_acquire with_python;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
}

template <class Allocator>
void bind_replay_of(nb::module_& module, const char* name, const char* text) {
    using Bound = Replay<Allocator>;
    nb::class_<Bound>(module, name, text)
        .def(
            "__init__",
            [](Bound* made, const RequestLog& log, Allocator& allocator, DeviceMemory& memory,
               SegmentLog* segments, bool has_series, BlockStamps* stamps) {
                new (made)
                    Bound(log, allocator, side_streams_of(memory), {segments, stamps}, has_series);
            },
            "log"_a, "allocator"_a, "memory"_a, "segments"_a.none() = nb::none(),
            "has_series"_a = false, "stamps"_a.none() = nb::none(), nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(),
            nb::keep_alive<1, 7>())
        .def(
            "run_to", [](Bound& made, std::size_t row) { made.run_to(row, heeding_signals()); },
            "row"_a, WithoutPython(), "Make the rows before one that were not made yet.")
        .def(
            "end", [](Bound& made) { return made.end(heeding_signals()); }, WithoutPython())
        .def_prop_ro("seconds", &Bound::seconds)
        .def_prop_ro("out_of_memory_row", &Bound::out_of_memory_row);
}

void bind_replay(nb::module_& module) {
    nb::class_<RequestLog>(module, "RequestLog", "The requests of a recorded run.")
        .def(
            "__init__",
            [](RequestLog* made, const Array<std::uint8_t>& action,
               const Array<std::uint64_t>& address, const Array<std::int64_t>& bytes,
               const Array<std::int64_t>& stream) {
                new (made)
                    RequestLog({copy(action), copy(address), copy(bytes), copy_streams(stream)});
            },
            "action"_a, "address"_a, "bytes"_a, "stream"_a)
        .def_prop_ro("row_count", [](const RequestLog& log) { return log.rows().size(); })
        .def_prop_ro("request_count", [](const RequestLog& log) { return log.requests().size(); });
    nb::enum_<RecordedAction>(module, "RecordedAction", "What a row of a recorded run tells of.",
                              nb::is_arithmetic())
        .value("ALLOCATE", RecordedAction::allocate)
        .value("FREE_REQUESTED", RecordedAction::free_requested)
        .value("FREE_COMPLETED", RecordedAction::free_completed)
        .value("SEGMENT_ALLOCATED", RecordedAction::segment_allocated)
        .value("SEGMENT_FREED", RecordedAction::segment_freed)
        .value("SEGMENT_MAPPED", RecordedAction::segment_mapped)
        .value("SEGMENT_UNMAPPED", RecordedAction::segment_unmapped);
    nb::class_<ReplayOutcome>(module, "ReplayOutcome", "What became of the requests.")
        .def("take_addresses",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.addresses)); })
        .def("take_reserved",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.reserved)); })
        .def("take_allocated",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.allocated)); })
        .def_ro("out_of_memory_row", &ReplayOutcome::out_of_memory_row)
        .def_ro("seconds", &ReplayOutcome::seconds);
    bind_replay_of<OnlineAllocator>(module, "PolicyReplay",
                                    "The requests of a recorded run, made to a policy.");
    bind_replay_of<PlannedAllocator>(module, "PlannedReplay",
                                     "The requests of a recorded run, made to planned memory.");
}

}  // namespace

void bind_policies(nb::module_& module) {
    bind_calls(module);
    bind_replayed(module);
    bind_listing(module);
    bind_online(module);
    bind_serving(module);
    bind_pytorch(module);
    bind_gmlake(module);
    bind_vpmm(module);
    bind_replay(module);
}

}  // namespace gapless::runtime
