// Declarations that the files of the bindings share.
#pragma once

#include <nanobind/nanobind.h>

namespace gapless::runtime {

namespace nb = nanobind;
using namespace nb::literals;
using WithoutPython = nb::call_guard<nb::gil_scoped_release>;

void bind_device(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_allocator(nb::module_& module);
void bind_online(nb::module_& module);

}  // namespace gapless::runtime
