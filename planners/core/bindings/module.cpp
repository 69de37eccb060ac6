#include <chrono>
#include <cmath>

#include "arrays.h"

namespace gapless::bindings {

std::vector<Segment> to_segments(const Table<std::int64_t>& rows, std::int64_t tensors) {
    static_assert(sizeof(Segment) == 3 * sizeof(std::int64_t));
    if (rows.shape(1) != 3) {
        throw std::invalid_argument(
            "field segments: rows (tensor, start, end) are needed, found "
            "rows of " +
            std::to_string(rows.shape(1)));
    }
    const auto* first = reinterpret_cast<const Segment*>(rows.data());
    std::vector<Segment> segments(first, first + rows.shape(0));
    require_segments(segments, tensors);
    return segments;
}

Stop stop_after(double seconds) {
    using Clock = std::chrono::steady_clock;
    if (std::isnan(seconds)) {
        throw std::invalid_argument("field seconds: a number is needed, found nan");
    }
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
    module.doc() =
        "The C++ core of Gapless.\n\n"
        "Arrays are copied and checked before anything is done with them: a name of something that "
        "does\nnot exist is an IndexError, a sum that is too large an OverflowError, what does not "
        "fit together or\nis more than is taken a ValueError. Any number of threads may call at "
        "once, and share objects, but\nwhere a class says otherwise. Long calls let other threads "
        "run; in the main thread they notice\nsignals. `seconds` is a limit, which may be "
        "infinite; "
        "a TimeoutError says that it has passed.";
    // Problems cache objects of this module, and a problem in a module's globals lives until the
    // interpreter ends. That is not a leak, so nanobind's warning is off.
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
    bind_reorder(module);
    bind_recompute(module);
    bind_bounds(module);
    bind_check(module);
    bind_pickle(module);
}
