// Conversions of NumPy arrays, and a stop that listens to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/sections.h"
#include "model/stop.h"

namespace gapless::bindings {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Table = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Copies an array while holding the GIL: after its release another thread may write to the array.
// See Note [The border].
template <class T>
std::vector<T> copy(const Array<T>& array) {
    return {array.data(), array.data() + array.shape(0)};
}
// Copies the rows of a table in sequence. Throws std::invalid_argument unless the table has
// `columns` columns.
template <class T>
std::vector<T> copy(const Table<T>& table, const char* field, std::size_t columns) {
    if (table.shape(1) != columns) {
        throw std::invalid_argument(std::string("field ") + field + ": rows of " +
                                    std::to_string(columns) + " are needed, found rows of " +
                                    std::to_string(table.shape(1)));
    }
    return {table.data(), table.data() + table.shape(0) * columns};
}

// Hands a vector to NumPy without copying it.
template <class T>
NumpyArray<T> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NumpyArray<T>(kept->data(), {kept->size()}, owner);
}

// Hands a vector of rows of `width` values each to NumPy without copying it.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> to_numpy_rows(std::vector<T>&& values, std::size_t width) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size() / width, width}, owner};
}

// Returns rows (tensor, start, end) as segments; throws what require_segments throws.
std::vector<Segment> to_segments(const Table<std::int64_t>& rows, std::int64_t tensors);

// Stops with TimeLimitReached after `seconds`, or as soon as Python has received a signal. Throws
// std::invalid_argument if `seconds` is NaN.
Stop stop_after(double seconds);

constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

// Returns run(stop), which stops as stop_after() says and runs without the GIL.
template <class Run>
auto without_python(double seconds, Run run) {
    Stop stop = stop_after(seconds);
    const nb::gil_scoped_release released;
    return run(stop);
}

void bind_graph(nb::module_& module);
void bind_homosize(nb::module_& module);
void bind_instance(nb::module_& module);
void bind_placement(nb::module_& module);
void bind_search(nb::module_& module);
void bind_reorder(nb::module_& module);
void bind_recompute(nb::module_& module);
void bind_bounds(nb::module_& module);
void bind_check(nb::module_& module);
void bind_pickle(nb::module_& module);

}  // namespace gapless::bindings
