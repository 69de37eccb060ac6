#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocator/program_record.h"
#include "bindings.h"
#include "numpy_arrays.h"

namespace gapless::runtime {

namespace {

using Column = Array<std::int64_t>;
using Flags = Array<std::uint8_t>;
using LogRows =
    nb::ndarray<const std::int64_t, nb::shape<-1, kLogColumns>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> column(const std::vector<T>& values) {
    return to_array(std::vector<T>(values));
}

void bind_kind_record(nb::module_& module) {
    nb::class_<KindRecord> bound(module, "KindRecord", "What was seen of one kind of step.");
    bound.def(
        "__init__",
        [](KindRecord* made, std::int64_t number, std::int32_t label, const Column& stream,
           const Column& least, const Column& most, const Column& last, const Column& end,
           const Column& short_end, const Flags& was_freed, const Flags& renewed,
           const std::map<std::int64_t, Column>& later, std::int64_t seen, std::int64_t last_seen) {
            new (made)
                KindRecord{number,     label,     copy(stream),    copy(least),     copy(most),
                           copy(last), copy(end), copy(short_end), copy(was_freed), copy(renewed),
                           {},         seen,      last_seen};
            for (const auto& [other, ends] : later) made->later.emplace(other, copy(ends));
        },
        "number"_a, "label"_a, "stream"_a, "least"_a, "most"_a, "last"_a, "end"_a, "short_end"_a,
        "was_freed"_a, "renewed"_a, "later"_a, "seen"_a, "last_seen"_a);
    const auto def = [&](const char* name, auto member) {
        bound.def_prop_ro(
            name, [member](const KindRecord& kind) { return column(kind.*member); },
            nb::rv_policy::move);
    };
    bound.def_ro("number", &KindRecord::number).def_ro("label", &KindRecord::label);
    def("stream", &KindRecord::stream);
    def("least", &KindRecord::least);
    def("most", &KindRecord::most);
    def("last", &KindRecord::last);
    def("end", &KindRecord::end);
    def("short_end", &KindRecord::short_end);
    def("was_freed", &KindRecord::was_freed);
    def("renewed", &KindRecord::renewed);
    bound
        .def_prop_ro(
            "later",
            [](const KindRecord& kind) {
                nb::dict later;
                for (const auto& [number, ends] : kind.later) {
                    later[nb::int_(number)] = column(ends);
                }
                return later;
            },
            nb::sig("def later(self) -> dict[int, NDArray[numpy.int64]]"))
        .def_ro("seen", &KindRecord::seen)
        .def_ro("last_seen", &KindRecord::last_seen);
}

}  // namespace

void bind_program_record(nb::module_& module) {
    bind_kind_record(module);
    module.attr("MOST_KINDS") = kMostKinds;
    module.attr("REPEATED") = kRepeated;
    nb::class_<ProgramRecord>(module, "ProgramRecord",
                              "The kinds of step of a program, learnt from the allocator's log.")
        .def(nb::init<std::vector<KindRecord>>(), "kinds"_a)
        .def(
            "add",
            [](ProgramRecord& record, const LogRows& rows, const std::vector<std::int64_t>& book) {
                // The rows have the layout of PlannedAllocator.take_log().
                const auto* log = reinterpret_cast<const LogEntry*>(rows.data());
                record.add({log, rows.shape(0)}, book);
            },
            "rows"_a, "in_book"_a, WithoutPython())
        .def("lose_track", &ProgramRecord::lose_track, WithoutPython())
        .def("saw", &ProgramRecord::saw, "numbers"_a, WithoutPython())
        .def_prop_ro("version", &ProgramRecord::version)
        .def_prop_ro("newest_request", &ProgramRecord::newest_request)
        .def_prop_ro("knew_last_step", &ProgramRecord::knew_last_step)
        .def("kinds", &ProgramRecord::kinds, "least_seen"_a = 0, WithoutPython())
        .def(
            "stays",
            [](const ProgramRecord& record, const Column& requests) {
                return to_array(record.stays({requests.data(), requests.shape(0)}));
            },
            "requests"_a)
        .def("live_bytes", &ProgramRecord::live_bytes, WithoutPython());
}

}  // namespace gapless::runtime
