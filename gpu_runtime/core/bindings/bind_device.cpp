#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>

#include "bindings.h"
#include "device/cuda_memory.h"
#include "device/ledger_memory.h"
#include "device/simulated_memory.h"

namespace gapless::runtime {

void bind_device(nb::module_& module) {
    nb::class_<DeviceMemory>(module, "DeviceMemory", "What an allocator asks of a device.")
        .def_prop_ro("page_bytes", &DeviceMemory::page_bytes)
        .def("free_bytes", &DeviceMemory::free_bytes)
        .def("reserve_range", &DeviceMemory::reserve_range, "bytes"_a)
        .def("release_range", &DeviceMemory::release_range, "address"_a, "bytes"_a)
        .def("create_pages", &DeviceMemory::create_pages, "bytes"_a)
        .def("release_pages", &DeviceMemory::release_pages, "pages"_a)
        .def("map", &DeviceMemory::map, "address"_a, "pages"_a, "bytes"_a)
        .def("set_access", &DeviceMemory::set_access, "address"_a, "bytes"_a)
        .def("unmap", &DeviceMemory::unmap, "address"_a, "bytes"_a)
        .def("allocate_plain", &DeviceMemory::allocate_plain, "bytes"_a)
        .def("release_plain", &DeviceMemory::release_plain, "address"_a)
        .def("allocate_host", &DeviceMemory::allocate_host, "bytes"_a)
        .def("release_host", &DeviceMemory::release_host, "host"_a)
        .def("copy", &DeviceMemory::copy, "target"_a, "source"_a, "bytes"_a)
        .def("await_copies", &DeviceMemory::await_copies)
        .def("synchronize", &DeviceMemory::synchronize)
        .def("record_event", &DeviceMemory::record_event, "stream"_a)
        .def("is_done", &DeviceMemory::is_done, "event"_a)
        .def("await_event", &DeviceMemory::await, "event"_a)
        .def("make_wait", &DeviceMemory::make_wait, "stream"_a, "event"_a)
        .def("destroy_event", &DeviceMemory::destroy_event, "event"_a);
    nb::class_<CudaMemory, DeviceMemory>(module, "CudaMemory", "A CUDA device, by the driver.")
        .def(nb::init<int>(), "device"_a)
        .def("make_stream", &CudaMemory::make_stream)
        .def_prop_ro("name", &CudaMemory::name)
        .def_prop_ro("capability", &CudaMemory::capability)
        .def(
            "load_checks",
            [](CudaMemory& memory, const nb::bytes& image) {
                memory.load_checks({image.c_str(), image.size()});
            },
            "image"_a);
    nb::enum_<LedgerStreams>(module, "LedgerStreams", "When a stream is done with its work.")
        .value("AT_ONCE", LedgerStreams::at_once)
        .value("WHEN_TOLD", LedgerStreams::when_told);
    nb::class_<LedgerMemory, DeviceMemory>(
        module, "LedgerMemory",
        "A device that keeps accounts and has no memory.\n\nIt belongs to one thread at a time.")
        .def(nb::init<std::size_t, std::size_t, LedgerStreams>(), "page_bytes"_a,
             "capacity_bytes"_a, "streams"_a = LedgerStreams::at_once)
        .def("dictate_plain", &LedgerMemory::dictate_plain, "addresses"_a)
        .def("dictate_ranges", &LedgerMemory::dictate_ranges, "addresses"_a)
        .def("finish", &LedgerMemory::finish, "stream"_a)
        .def_prop_ro("created_bytes", &LedgerMemory::created_bytes)
        .def_prop_ro("live_events", &LedgerMemory::live_events);
    nb::class_<Wait>(module, "Wait", "A stream that was made to wait for another.")
        .def_ro("waiting", &Wait::waiting)
        .def_ro("awaited", &Wait::awaited)
        .def_ro("position", &Wait::position);
    nb::class_<SimulatedMemory, DeviceMemory>(module, "SimulatedMemory",
                                              "A device in the host's memory.")
        .def(nb::init<std::size_t, std::size_t>(), "page_bytes"_a, "capacity_bytes"_a)
        .def("submit", &SimulatedMemory::submit, "stream"_a, "address"_a = 0, "bytes"_a = 0)
        .def("finish", &SimulatedMemory::finish, "stream"_a)
        .def("work_at_events", &SimulatedMemory::work_at_events)
        .def("destroy_stream", &SimulatedMemory::destroy_stream, "stream"_a)
        .def("set_captured", &SimulatedMemory::set_captured, "stream"_a, "is_captured"_a)
        .def_prop_ro("captured_work", &SimulatedMemory::captured_work)
        .def("fail_after", &SimulatedMemory::fail_after, "calls"_a, "failures"_a = 1)
        .def_prop_ro("created_bytes", &SimulatedMemory::created_bytes)
        .def_prop_ro("mapped_bytes", &SimulatedMemory::mapped_bytes)
        .def_prop_ro("host_allocations", &SimulatedMemory::host_allocations)
        .def_prop_ro("reserved_ranges", &SimulatedMemory::reserved_ranges)
        .def_prop_ro("live_events", &SimulatedMemory::live_events)
        .def_prop_ro("calls", &SimulatedMemory::calls)
        .def_prop_ro("waits", &SimulatedMemory::waits);
}

}  // namespace gapless::runtime
