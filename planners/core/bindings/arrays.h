// NumPy arrays in and out, and the stop that listens to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sections.h"
#include "stop.h"

namespace gapless::bindings {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Table = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
std::span<const T> view(const Array<T>& array) {
    return {array.data(), array.shape(0)};
}
template <class T>
std::span<const T> view(const Table<T>& table) {
    return {table.data(), table.shape(0) * table.shape(1)};
}
template <class T>
std::vector<T> copy(const Array<T>& array) {
    return {array.data(), array.data() + array.shape(0)};
}

// Hands a vector to NumPy without copying it.
template <class T>
NumpyArray<T> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NumpyArray<T>(kept->data(), {kept->size()}, owner);
}

// The same with rows of `width` values each.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> to_numpy_rows(std::vector<T>&& values, std::size_t width) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size() / width, width}, owner};
}

// Rows (tensor, start, end) as segments, which live as long as the table. Throws std::out_of_range
// for a tensor that does not exist.
std::span<const Segment> to_segments(const Table<std::int64_t>& rows, std::int32_t tensors);

// Stops after `seconds` with TimeLimitReached, and as soon as Python has received a signal.
Stop stop_after(double seconds);

void bind_graph(nb::module_& module);
void bind_homosize(nb::module_& module);
void bind_instance(nb::module_& module);
void bind_placement(nb::module_& module);
void bind_search(nb::module_& module);
void bind_bounds(nb::module_& module);
void bind_check(nb::module_& module);
void bind_pickle(nb::module_& module);

}  // namespace gapless::bindings
