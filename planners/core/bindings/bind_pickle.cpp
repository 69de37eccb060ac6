#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <string_view>
#include <tuple>

#include "arrays.h"
#include "files/plain_pickle.h"

namespace gapless::bindings {

void bind_pickle(nb::module_& module) {
    module.def(
        "find_pickle_fault",
        [](nb::bytes data, std::uint64_t containers, std::uint64_t scalars,
           std::uint64_t integer_bytes) {
            const std::span bytes(reinterpret_cast<const std::uint8_t*>(data.c_str()), data.size());
            const PickleFault fault = without_python(kNoTimeLimit, [&](Stop& stop) {
                return find_pickle_fault(bytes, {containers, scalars, integer_bytes}, stop);
            });
            return std::tuple(std::string_view(fault.rule), fault.number, fault.left);
        },
        nb::arg("data"), nb::arg("containers"), nb::arg("scalars"), nb::arg("integer_bytes"),
        "The rule of plain pickles that some data breaks, empty if none, with the number found and "
        "the bytes left there.");
}

}  // namespace gapless::bindings
