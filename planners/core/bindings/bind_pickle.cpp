#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <string>
#include <string_view>
#include <tuple>

#include "arrays.h"
#include "files/plain_pickle.h"
#include "one_at_a_time.h"

namespace gapless::bindings {

namespace {

struct PickleCheck {
    PlainPickle pickle;
    std::atomic_flag busy;
};

}  // namespace

void bind_pickle(nb::module_& module) {
    nb::class_<PickleCheck>(module, "PickleCheck",
                            "A check of a pickle of plain containers, which comes twice.")
        .def(
            "__init__",
            [](PickleCheck* self, std::uint64_t memory, std::uint64_t integer_bytes,
               std::uint64_t text_bytes, bool is_spooled) {
                new (self) PickleCheck{{{memory, integer_bytes, text_bytes}, is_spooled}, {}};
            },
            nb::arg("memory"), nb::arg("integer_bytes"), nb::arg("text_bytes"),
            nb::arg("is_spooled"))
        .def(
            "feed",
            [](PickleCheck& self, nb::bytes piece) {
                const OneAtATime one(self.busy, "feed");
                const std::span bytes(reinterpret_cast<const std::uint8_t*>(piece.c_str()),
                                      piece.size());
                const std::string checked = without_python(
                    kNoTimeLimit, [&](Stop& stop) { return self.pickle.feed(bytes, stop); });
                return nb::bytes(checked.data(), checked.size());
            },
            nb::arg("piece"),
            "Check a piece, or the end if it is empty; the second time, return what is to be read.")
        .def(
            "again",
            [](PickleCheck& self) {
                const OneAtATime one(self.busy, "again");
                self.pickle.again();
            },
            "Begin the second time.")
        .def_prop_ro(
            "fault",
            [](const PickleCheck& self) {
                const PickleFault& fault = self.pickle.fault();
                return std::tuple(std::string_view(fault.rule), fault.number, fault.left);
            },
            "The rule that the pickle breaks, empty if none, with the number found and the bytes "
            "left there.");
}

}  // namespace gapless::bindings
