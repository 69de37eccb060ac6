// NumPy arrays in and out.
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

// Python has handles of streams in 64 bits with a sign, as it reads them from a log.
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

// The same with one value a row.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> to_array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size()}, owner};
}

}  // namespace gapless::runtime
