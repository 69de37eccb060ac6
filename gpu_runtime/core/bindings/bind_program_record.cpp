#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocator/book_trial.h"
#include "allocator/program_record.h"
#include "bindings.h"
#include "numpy_arrays.h"

namespace gapless::runtime {

namespace {

using Column = Array<std::int64_t>;
using Flags = Array<std::uint8_t>;
using LogRows =
    nb::ndarray<const std::int64_t, nb::shape<-1, kLogColumns>, nb::c_contig, nb::device::cpu>;

// The rows have the layout of PlannedAllocator.take_log().
std::span<const LogEntry> log_of(const LogRows& rows) {
    return {reinterpret_cast<const LogEntry*>(rows.data()), rows.shape(0)};
}

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

using GuestRows = nb::ndarray<const std::int64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
static_assert(sizeof(Guest) == 3 * sizeof(std::int64_t));

void bind_book_trial(nb::module_& module) {
    nb::class_<TrialTerms>(module, "TrialTerms", "The device and the program of a trial.")
        .def(
            "__init__",
            [](TrialTerms* made, std::size_t page_bytes, bool is_plain, std::int64_t live_bytes,
               std::int64_t live_peak) {
                new (made) TrialTerms{page_bytes, is_plain, live_bytes, live_peak};
            },
            "page_bytes"_a, "is_plain"_a, "live_bytes"_a, "live_peak"_a)
        .def_ro("page_bytes", &TrialTerms::page_bytes)
        .def_ro("live_peak", &TrialTerms::live_peak);
    nb::class_<TrialOutcome>(module, "TrialOutcome", "The cost of serving the last steps.")
        .def_ro("reserved_peak", &TrialOutcome::reserved_peak)
        .def_ro("memory_calls", &TrialOutcome::memory_calls)
        .def_ro("host_waits", &TrialOutcome::host_waits)
        .def_ro("served", &TrialOutcome::served)
        .def_ro("unserved", &TrialOutcome::unserved);
    module.def(
        "try_book",
        [](const std::vector<LogRows>& logs, const TrialTerms& terms, const Book* book,
           const GuestRows& guests) {
            std::vector<std::span<const LogEntry>> steps;
            for (const LogRows& log : logs) steps.push_back(log_of(log));
            const auto* its = reinterpret_cast<const Guest*>(guests.data());
            return try_book(steps, terms, book, {its, its + guests.shape(0)});
        },
        "logs"_a, "terms"_a, "book"_a.none(), "guests"_a, WithoutPython());
}

}  // namespace

void bind_program_record(nb::module_& module) {
    bind_kind_record(module);
    bind_book_trial(module);
    module.attr("MOST_KINDS") = kMostKinds;
    module.attr("REPEATED") = kRepeated;
    nb::class_<ProgramRecord>(module, "ProgramRecord",
                              "The kinds of step of a program, learnt from the allocator's log.")
        .def(nb::init<std::vector<KindRecord>>(), "kinds"_a)
        .def(
            "add",
            [](ProgramRecord& record, const LogRows& rows, const std::vector<std::int64_t>& book) {
                record.add(log_of(rows), book);
            },
            "rows"_a, "in_book"_a, WithoutPython())
        .def("lose_track", &ProgramRecord::lose_track, WithoutPython())
        .def("saw", &ProgramRecord::saw, "numbers"_a, WithoutPython())
        .def_prop_ro("version", &ProgramRecord::version)
        .def_prop_ro("newest_request", &ProgramRecord::newest_request)
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
