#include <exception>

#include "bindings.h"
#include "device/device_memory.h"

NB_MODULE(_core, module) {
    using namespace gapless::runtime;
    module.doc() =
        "The C++ core of the runtime: allocators over simulated and CUDA memory.\n\n"
        "Any number of threads may call at once, and share objects, but where a class says "
        "otherwise. What a\ndevice refuses is an OSError, what it has no memory for a MemoryError, "
        "a call at the wrong time a "
        "RuntimeError, and a plan that\nbreaks a rule a ValueError that names the rule.";
    // An installed allocator outlives the interpreter on purpose, so nanobind must not warn of
    // leaks.
    nb::set_leak_warnings(false);
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const OutOfDeviceMemory& error) {
            PyErr_SetString(PyExc_MemoryError, error.what());
        } catch (const OutOfHostMemory& error) {
            PyErr_SetString(PyExc_MemoryError, error.what());
        } catch (const DeviceCallError& error) {
            PyErr_SetString(PyExc_OSError, error.what());
        }
    });
    bind_device(module);
    bind_plan(module);
    bind_allocator(module);
    bind_online(module);
}
