#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "device/block_stamps.h"
#include "device/counting_memory.h"
#include "device/replayed_streams.h"
#include "device/segment_log.h"
#include "numpy_arrays.h"
#include "online/gmlake.h"
#include "online/module_visits.h"
#include "online/online_allocators.h"
#include "online/pytorch_caching.h"
#include "online/pytorch_expandable.h"
#include "online/replay.h"
#include "online/request_log.h"
#include "online/serving_online_allocator.h"
#include "online/stweaver.h"
#include "online/vpmm.h"

namespace gapless::runtime {

namespace {

constexpr std::size_t kSegmentColumns = 3;

using Rows = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

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
        .def_ro("other", &DeviceCalls::other)
        .def_prop_ro("host_waits", &DeviceCalls::host_waits);
    nb::class_<CountingMemory, DeviceMemory>(
        module, "CountingMemory", "A device that counts what it is asked, and may time it.")
        .def(nb::init<DeviceMemory&, bool>(), "memory"_a, "is_timed"_a = false,
             nb::keep_alive<1, 2>())
        .def_prop_ro("calls", [](const CountingMemory& memory) { return memory.calls(); })
        .def_prop_ro("nanoseconds",
                     [](const CountingMemory& memory) { return memory.nanoseconds(); });
    nb::class_<SegmentLog, DeviceMemory>(module, "SegmentLog",
                                         "A device that logs each obtained segment with its row.")
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
        "A device that maps the streams of a recorded run to its own streams.")
        .def(nb::init<DeviceMemory&, Stream>(), "memory"_a, "other"_a, nb::keep_alive<1, 2>())
        .def("stand_for", &ReplayedStreams::stand_for, "recorded"_a, "handle"_a)
        .def("finish", &ReplayedStreams::finish, "recorded"_a);
    nb::class_<Overwritten>(module, "Overwritten", "A block that was overwritten while it lived.")
        .def_ro("number", &Overwritten::comparison)
        .def_ro("address", &Overwritten::first)
        .def_ro("words", &Overwritten::words);
    nb::class_<BlockStamps, DeviceMemory>(
        module, "BlockStamps",
        "A device that stamps each block at its allocation, and checks it at its free.")
        .def(nb::init<DeviceMemory&, DeviceMemory&>(), "memory"_a, "device"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("hand_out", &BlockStamps::hand_out, "number"_a, "address"_a, "bytes"_a)
        .def("take_back", &BlockStamps::take_back, "number"_a)
        .def("take_back_after", &BlockStamps::take_back_after, "number"_a, "stream"_a)
        .def("take_back_all", &BlockStamps::take_back_all)
        .def("found", &BlockStamps::found);
}

void bind_listing(nb::module_& module) {
    nb::class_<OnlineFigures>(module, "OnlineFigures", "Current bytes, and peaks.")
        .def_ro("requested_bytes", &OnlineFigures::requested_bytes)
        .def_ro("requested_peak", &OnlineFigures::requested_peak)
        .def_ro("allocated_bytes", &OnlineFigures::allocated_bytes)
        .def_ro("allocated_peak", &OnlineFigures::allocated_peak)
        .def_ro("active_bytes", &OnlineFigures::active_bytes)
        .def_ro("free_bytes", &OnlineFigures::free_bytes)
        .def_ro("reserved_bytes", &OnlineFigures::reserved_bytes)
        .def_ro("reserved_peak", &OnlineFigures::reserved_peak)
        .def_ro("segments", &OnlineFigures::segments);
    nb::enum_<OnlineState>(module, "OnlineState", "The state of a block of an online allocator.")
        .value("ALLOCATED", OnlineState::allocated)
        .value("PENDING", OnlineState::pending)
        .value("FREE", OnlineState::free)
        .value("UNMAPPED", OnlineState::unmapped);
    nb::class_<OnlineBlock>(module, "OnlineBlock", "A range of a segment.")
        .def_ro("address", &OnlineBlock::address)
        .def_ro("bytes", &OnlineBlock::bytes)
        .def_ro("requested", &OnlineBlock::requested)
        .def_ro("state", &OnlineBlock::state);
    nb::class_<OnlineSegment>(module, "OnlineSegment", "Adjacent blocks.")
        .def_ro("address", &OnlineSegment::address)
        .def_ro("bytes", &OnlineSegment::bytes)
        .def_ro("stream", &OnlineSegment::stream)
        .def_ro("pool", &OnlineSegment::pool)
        .def_ro("blocks", &OnlineSegment::blocks);
}

void bind_allocator_interface(nb::module_& module) {
    nb::class_<OnlineAllocator>(module, "OnlineAllocator",
                                "Serves each request without knowing later ones.\n\n"
                                "Only one thread at a time may use it and its device.")
        .def("allocate", &OnlineAllocator::allocate, "bytes"_a, "stream"_a = 0)
        .def("free", &OnlineAllocator::free, "address"_a)
        .def("use_on", &OnlineAllocator::use_on, "address"_a, "stream"_a)
        .def("settle", &OnlineAllocator::settle)
        .def("give_back", &OnlineAllocator::give_back)
        .def("begin_iteration", &OnlineAllocator::begin_iteration)
        .def("enter", &OnlineAllocator::enter, "visit"_a)
        .def("enter_pool", &OnlineAllocator::enter_pool, "pool"_a)
        .def("end_pool", &OnlineAllocator::end_pool, "pool"_a)
        .def("figures", [](const OnlineAllocator& allocator) { return allocator.figures(); })
        .def("reset_peaks", &OnlineAllocator::reset_peaks)
        .def("own_figures", &OnlineAllocator::own_figures)
        .def("segments", &OnlineAllocator::segments)
        .def("check", &OnlineAllocator::check);
}

void bind_serving(nb::module_& module) {
    nb::class_<ServingOnlineAllocator, ServingAllocator>(
        module, "ServingOnlineAllocator",
        "An online allocator below PyTorch's.\n\nOne lock guards it and its device.")
        .def(nb::init<OnlineAllocator&, const CountingMemory&>(), "allocator"_a, "memory"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("begin_iteration", &ServingOnlineAllocator::begin_iteration, WithoutPython())
        .def("enter", &ServingOnlineAllocator::enter, "visit"_a, WithoutPython())
        .def("figures", &ServingOnlineAllocator::figures, WithoutPython())
        .def("reset_peaks", &ServingOnlineAllocator::reset_peaks, WithoutPython())
        .def("own_figures", &ServingOnlineAllocator::own_figures, WithoutPython())
        .def("calls", &ServingOnlineAllocator::calls, WithoutPython())
        .def("nanoseconds", &ServingOnlineAllocator::nanoseconds, WithoutPython())
        .def("check", &ServingOnlineAllocator::check, WithoutPython());
}

template <class Settings, class Value>
using Field = std::pair<const char*, Value Settings::*>;

// Binds a struct; its constructor takes each field as an argument, with the field's default.
template <class Settings, class... Values>
nb::class_<Settings> bind_settings(nb::module_& module, const char* name, const char* text,
                                   Field<Settings, Values>... fields) {
    return nb::class_<Settings>(module, name, text)
        .def(
            "__init__",
            [=](Settings* made, const Values&... values) {
                Settings settings;
                ((settings.*fields.second = values), ...);
                if constexpr (requires { settings.validate(); }) settings.validate();
                new (made) Settings(settings);
            },
            (nb::arg(fields.first) = Settings().*fields.second)...);
}

void bind_pytorch(nb::module_& module) {
    using Settings = PytorchSettings;
    bind_settings(
        module, "PytorchSettings", "The settings of PyTorch's allocator, in bytes.",
        std::pair{"max_split_bytes", &Settings::max_split_bytes},
        std::pair{"max_non_split_rounding_bytes", &Settings::max_non_split_rounding_bytes},
        std::pair{"roundup_power2_divisions", &Settings::roundup_power2_divisions},
        std::pair{"garbage_collection_threshold", &Settings::garbage_collection_threshold},
        std::pair{"large_segment_bytes", &Settings::large_segment_bytes},
        std::pair{"expandable_page_bytes", &Settings::expandable_page_bytes},
        std::pair{"per_process_memory_fraction", &Settings::per_process_memory_fraction})
        .def("rounded", &PytorchSettings::rounded, "requested"_a)
        .def("segment_for", &PytorchSettings::segment_for, "bytes"_a);
    nb::class_<PytorchCaching, OnlineAllocator>(module, "PytorchCaching",
                                                "PyTorch's default allocator.")
        .def(nb::init<DeviceMemory&, const PytorchSettings&>(), "memory"_a,
             "settings"_a = PytorchSettings(), nb::keep_alive<1, 2>());
    nb::class_<PytorchExpandable, OnlineAllocator>(module, "PytorchExpandable",
                                                   "PyTorch's allocator with expandable segments.")
        .def(nb::init<DeviceMemory&, const PytorchSettings&>(), "memory"_a,
             "settings"_a = PytorchSettings(), nb::keep_alive<1, 2>());
}

void bind_gmlake(nb::module_& module) {
    bind_settings(module, "GmlakeRules", "The constants of virtual memory stitching.",
                  std::pair{"chunk_bytes", &GmlakeRules::chunk_bytes},
                  std::pair{"fragmentation_limit_bytes", &GmlakeRules::fragmentation_limit_bytes},
                  std::pair{"limits_blocks", &GmlakeRules::limits_blocks},
                  std::pair{"most_stitched", &GmlakeRules::most_stitched},
                  std::pair{"most_stitched_bytes", &GmlakeRules::most_stitched_bytes});
    nb::class_<GmlakeStates>(module, "GmlakeStates", "Number of requests in each state.")
        .def_ro("exact", &GmlakeStates::exact)
        .def_ro("single", &GmlakeStates::single)
        .def_ro("whole", &GmlakeStates::whole)
        .def_ro("multiple", &GmlakeStates::multiple)
        .def_ro("insufficient", &GmlakeStates::insufficient)
        .def_ro("out_of_memory", &GmlakeStates::out_of_memory);
    nb::class_<Gmlake, OnlineAllocator>(module, "Gmlake", "Stitches scattered free blocks.")
        .def(nb::init<DeviceMemory&, const GmlakeRules&>(), "memory"_a, "rules"_a = GmlakeRules(),
             nb::keep_alive<1, 2>())
        .def("states", [](const Gmlake& allocator) { return allocator.states(); })
        .def_prop_ro("stitched_count", &Gmlake::stitched_count)
        .def_prop_ro("primitive_count", &Gmlake::primitive_count);
}

void bind_vpmm(nb::module_& module) {
    bind_settings(module, "VpmmSettings", "The constants of VPMM's pool.",
                  std::pair{"page_bytes", &VpmmSettings::page_bytes},
                  std::pair{"pages", &VpmmSettings::pages},
                  std::pair{"chunk_bytes", &VpmmSettings::chunk_bytes});
    nb::enum_<VpmmState>(module, "VpmmState", "The state of a region of VPMM.")
        .value("LIVE", VpmmState::live)
        .value("PENDING", VpmmState::pending)
        .value("FREE", VpmmState::free)
        .value("HOLE", VpmmState::hole)
        .value("ZOMBIE", VpmmState::zombie);
    nb::class_<VpmmView>(module, "VpmmView", "A region of VPMM.")
        .def_ro("address", &VpmmView::address)
        .def_ro("bytes", &VpmmView::bytes)
        .def_ro("state", &VpmmView::state)
        .def_ro("stream", &VpmmView::stream);
    nb::class_<Vpmm, OnlineAllocator>(module, "Vpmm", "Moves free pages side by side for requests.")
        .def(nb::init<DeviceMemory&, const VpmmSettings&>(), "memory"_a,
             "settings"_a = VpmmSettings(), nb::keep_alive<1, 2>())
        .def("regions", &Vpmm::regions, "The regions in the order of addresses.");
}

// The rows of an array of so many columns, each made into a value.
template <class Value, std::size_t columns>
std::vector<Value> rows_of(const Rows& rows, Value (*make)(const std::int64_t* row)) {
    if (rows.shape(1) != columns) {
        throw std::invalid_argument("rows of " + std::to_string(columns) + " numbers are needed");
    }
    std::vector<Value> values;
    for (std::size_t row = 0; row < rows.shape(0); ++row) {
        const std::int64_t* const numbers = rows.data() + row * columns;
        if (std::any_of(numbers, numbers + columns, [](std::int64_t each) { return each < 0; })) {
            throw std::invalid_argument("row " + std::to_string(row) + ": numbers are at least 0");
        }
        values.push_back(make(numbers));
    }
    return values;
}

StweaverProfile profile_of(std::size_t pool_bytes, Stream stream, std::size_t visits,
                           const Rows& places, const Rows& spaces,
                           const std::vector<std::size_t>& list_begins, const Rows& intervals) {
    StweaverProfile profile{pool_bytes, stream, visits, {}, {}, list_begins, {}};
    profile.places = rows_of<StweaverProfile::Place, 3>(places, [](const std::int64_t* row) {
        return StweaverProfile::Place{row[0], static_cast<std::size_t>(row[1]),
                                      static_cast<std::size_t>(row[2])};
    });
    profile.spaces = rows_of<StweaverProfile::Space, 3>(spaces, [](const std::int64_t* row) {
        return StweaverProfile::Space{row[0], static_cast<std::size_t>(row[1]),
                                      static_cast<std::size_t>(row[2])};
    });
    profile.intervals = rows_of<PoolRange, 2>(intervals, [](const std::int64_t* row) {
        return PoolRange{static_cast<std::size_t>(row[0]), static_cast<std::size_t>(row[1])};
    });
    return profile;
}

void bind_stweaver(nb::module_& module) {
    nb::class_<StweaverProfile>(module, "StweaverProfile", "What STWeaver knows of a program.")
        .def(
            "__init__",
            [](StweaverProfile* made, std::size_t pool_bytes, Stream stream, std::size_t visits,
               const Rows& places, const Rows& spaces, const std::vector<std::size_t>& list_begins,
               const Rows& intervals) {
                new (made) StweaverProfile(
                    profile_of(pool_bytes, stream, visits, places, spaces, list_begins, intervals));
                made->validate();
            },
            "pool_bytes"_a, "stream"_a, "visits"_a, "places"_a, "spaces"_a, "list_begins"_a,
            "intervals"_a,
            "Places are rows (visit, bytes, offset), spaces (visit, bytes or 0, list).")
        .def_ro("pool_bytes", &StweaverProfile::pool_bytes);
    nb::class_<StweaverCounts>(module, "StweaverCounts", "How STWeaver served requests.")
        .def_ro("planned", &StweaverCounts::planned)
        .def_ro("displaced", &StweaverCounts::displaced)
        .def_ro("reused", &StweaverCounts::reused)
        .def_ro("cached", &StweaverCounts::cached)
        .def_ro("static_at_peak", &StweaverCounts::static_at_peak);
    nb::class_<Stweaver, OnlineAllocator>(module, "Stweaver",
                                          "Serves by the plan of a profiled iteration.")
        .def(nb::init<DeviceMemory&>(), "memory"_a, nb::keep_alive<1, 2>())
        .def("adopt", &Stweaver::adopt, "profile"_a)
        .def(
            "adopt_for_less",
            [](Stweaver& allocator, ServingOnlineAllocator& serving,
               const StweaverProfile& profile) {
                return serving.with_lock([&] { return allocator.adopt_for_less(profile); });
            },
            "serving"_a, "profile"_a, WithoutPython())
        .def(
            "keep_apart_below",
            [](Stweaver& allocator, ServingOnlineAllocator& serving, bool is_apart) {
                serving.with_lock([&] { allocator.keep_apart(is_apart); });
            },
            "serving"_a, "is_apart"_a, WithoutPython())
        .def(
            "record_below",
            [](Stweaver& allocator, ServingOnlineAllocator& serving, bool is_recording) {
                RecordedRows rows = [&] {
                    const nb::gil_scoped_release without_python;
                    return serving.with_lock([&] {
                        allocator.record(is_recording);
                        return allocator.take_rows();
                    });
                }();
                return std::tuple(to_array(std::move(rows.action)),
                                  to_array(std::move(rows.address)),
                                  to_array(std::move(rows.bytes)), to_array(std::move(rows.stream)),
                                  to_array(std::move(rows.visit)));
            },
            "serving"_a, "is_recording"_a,
            "Take what was written down: action, address, bytes, stream, visit; then go on or not.")
        .def_prop_ro("counts", [](const Stweaver& allocator) { return allocator.counts(); })
        .def_prop_ro("pool", &Stweaver::pool)
        .def_prop_ro("pool_bytes", &Stweaver::pool_bytes);
}

void bind_visits(nb::module_& module) {
    // A hook passes its arguments, which are not needed here.
    using Passed = nb::handle;
    nb::class_<ModuleVisits>(module, "ModuleVisits", "Where a program is, told by its hooks.")
        .def(nb::init<ServingOnlineAllocator&>(), "serving"_a, nb::keep_alive<1, 2>())
        .def("add", &ModuleVisits::add, "around"_a, "column"_a)
        .def("renumber", &ModuleVisits::renumber, "width"_a, "columns"_a)
        .def("enter", &ModuleVisits::enter, "phase"_a, "module"_a)
        .def("begin_phase", &ModuleVisits::begin_phase, "phase"_a)
        .def(
            "begin_forward",
            [](ModuleVisits& visits, std::int64_t module, Passed, Passed) {
                visits.begin_forward(module);
            },
            "module"_a, "called"_a = nb::none(), "inputs"_a = nb::none())
        .def("end_forward", &ModuleVisits::end_forward)
        .def(
            "begin_backward",
            [](ModuleVisits& visits, std::int64_t module, Passed) {
                visits.begin_backward(module);
            },
            "module"_a, "gradients"_a = nb::none())
        .def(
            "end_backward",
            [](ModuleVisits& visits, std::int64_t module, Passed) { visits.end_backward(module); },
            "module"_a, "gradients"_a = nb::none())
        .def("leave_all", &ModuleVisits::leave_all)
        .def_prop_ro("depth", &ModuleVisits::depth);
}

void bind_definitions(nb::module_& module) {
    nb::class_<OnlineParameter>(module, "OnlineParameter",
                                "A parameter of an online allocator, for users.")
        .def_ro("name", &OnlineParameter::name)
        .def_ro("help", &OnlineParameter::help)
        .def_ro("usual", &OnlineParameter::usual)
        .def_ro("least", &OnlineParameter::least)
        .def_ro("most", &OnlineParameter::most)
        .def_ro("is_power_of_two", &OnlineParameter::is_power_of_two);
    nb::class_<OnlineDefinition>(module, "OnlineDefinition", "An online allocator by its name.")
        .def_ro("name", &OnlineDefinition::name)
        .def_ro("summary", &OnlineDefinition::summary)
        .def_ro("source", &OnlineDefinition::source)
        .def_ro("parameters", &OnlineDefinition::parameters)
        .def_ro("dictated", &OnlineDefinition::dictated)
        .def_ro("crosses_streams", &OnlineDefinition::crosses_streams)
        .def(
            "make",
            [](const OnlineDefinition& definition, DeviceMemory& memory,
               const OnlineValues& values) {
                const auto is_typed = [](const OnlineParameter& parameter,
                                         const OnlineValue& value) {
                    return parameter.usual.index() == value.index();
                };
                if (!std::ranges::equal(definition.parameters, values, is_typed)) {
                    throw std::invalid_argument(
                        "values: one for each parameter, of the type of its default, are needed");
                }
                return definition.make(memory, values);
            },
            "memory"_a, "values"_a, nb::keep_alive<0, 2>(),
            "Make the allocator from a value for each parameter, in their order.");
    module.def("online_allocators", &online_allocators);
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
            "row"_a, WithoutPython(), "Replay the remaining rows before `row`.")
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
               const Array<std::int64_t>& stream, const std::optional<Array<std::int64_t>>& visit,
               const std::optional<Array<std::uint64_t>>& pool) {
                new (made)
                    RequestLog({copy(action), copy(address), copy(bytes), copy_streams(stream),
                                visit ? copy(*visit) : std::vector<std::int64_t>(),
                                pool ? copy(*pool) : std::vector<PoolId>()});
            },
            "action"_a, "address"_a, "bytes"_a, "stream"_a, "visit"_a.none() = nb::none(),
            "pool"_a.none() = nb::none())
        .def_prop_ro("row_count", [](const RequestLog& log) { return log.rows().size(); })
        .def_prop_ro("request_count", [](const RequestLog& log) { return log.requests().size(); });
    nb::enum_<RecordedAction>(module, "RecordedAction", "The kind of a row of a recorded run.",
                              nb::is_arithmetic())
        .value("ALLOCATE", RecordedAction::allocate)
        .value("FREE_REQUESTED", RecordedAction::free_requested)
        .value("FREE_COMPLETED", RecordedAction::free_completed)
        .value("SEGMENT_ALLOCATED", RecordedAction::segment_allocated)
        .value("SEGMENT_FREED", RecordedAction::segment_freed)
        .value("SEGMENT_MAPPED", RecordedAction::segment_mapped)
        .value("SEGMENT_UNMAPPED", RecordedAction::segment_unmapped);
    nb::class_<ReplayOutcome>(module, "ReplayOutcome", "The result of a replay.")
        .def("take_addresses",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.addresses)); })
        .def("take_reserved",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.reserved)); })
        .def("take_allocated",
             [](ReplayOutcome& outcome) { return to_array(std::move(outcome.allocated)); })
        .def_ro("out_of_memory_row", &ReplayOutcome::out_of_memory_row)
        .def_ro("seconds", &ReplayOutcome::seconds);
    bind_replay_of<OnlineAllocator>(
        module, "OnlineReplay", "Replays the requests of a recorded run to an online allocator.");
    bind_replay_of<PlannedAllocator>(module, "PlannedReplay",
                                     "Replays the requests of a recorded run to planned memory.");
}

}  // namespace

void bind_online(nb::module_& module) {
    bind_calls(module);
    bind_replayed(module);
    bind_listing(module);
    bind_allocator_interface(module);
    bind_serving(module);
    bind_pytorch(module);
    bind_gmlake(module);
    bind_vpmm(module);
    bind_stweaver(module);
    bind_visits(module);
    bind_definitions(module);
    bind_replay(module);
}

}  // namespace gapless::runtime
