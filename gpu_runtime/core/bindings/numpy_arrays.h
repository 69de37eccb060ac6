// Conversions of NumPy arrays.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings.h"
#include "device/device_memory.h"

namespace gapless::runtime {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copy(const Array<T>& array) {
    return {array.data(), array.data() + array.shape(0)};
}

// Python stores stream handles as signed 64-bit integers, as in a log.
inline std::vector<Stream> copy_streams(const Array<std::int64_t>& array) {
    return {array.data(), array.data() + array.shape(0)};
}

// Hands a vector of rows to NumPy without copying it.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> to_rows(std::vector<T>&& values, std::size_t columns) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size() / columns, columns}, owner};
}

// Hands a vector to NumPy as a one-dimensional array, without copying it.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size()}, owner};
}

}  // namespace gapless::runtime
