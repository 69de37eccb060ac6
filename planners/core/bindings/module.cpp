#include <chrono>

#include "arrays.h"

namespace gapless::bindings {

std::span<const Segment> to_segments(const Table<std::int64_t>& rows, std::int32_t tensors) {
    static_assert(sizeof(Segment) == 3 * sizeof(std::int64_t));
    if (rows.shape(1) != 3)
        throw std::invalid_argument("a segment has a tensor, a start and an end");
    const std::span segments(reinterpret_cast<const Segment*>(rows.data()), rows.shape(0));
    for (const Segment& segment : segments) {
        if (segment.tensor < 0 || segment.tensor >= tensors) {
            throw std::out_of_range("a segment names a tensor that does not exist");
        }
    }
    return segments;
}

Stop stop_after(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    auto asked = begun;
    return Stop([=]() mutable {
        const auto now = Clock::now();
        if (std::chrono::duration<double>(now - begun).count() > seconds) {
            throw TimeLimitReached("the time limit passed before a plan was complete");
        }
        if (now - asked < std::chrono::milliseconds(20)) return;
        asked = now;
        nb::gil_scoped_acquire with_python;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
}

}  // namespace gapless::bindings

NB_MODULE(_core, module) {
    using namespace gapless::bindings;
    module.doc() = "The C++ core of Gapless.";
    // Problems cache what the core made of them, and a problem kept in a module's globals lives
    // until the interpreter is gone: no leak, and nothing to warn of.
    nb::set_leak_warnings(false);
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const gapless::TimeLimitReached& error) {
            PyErr_SetString(PyExc_TimeoutError, error.what());
        }
    });
    bind_graph(module);
    bind_homosize(module);
    bind_instance(module);
    bind_placement(module);
    bind_search(module);
    bind_bounds(module);
    bind_check(module);
    bind_pickle(module);
}
