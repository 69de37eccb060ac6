#include <nanobind/stl/tuple.h>

#include "arrays.h"
#include "homosize/fusion.h"
#include "homosize/memory_layers.h"

namespace gapless::bindings {

namespace {

using Column = Array<std::int64_t>;

// The columns of requests. The Requests that refer to them are valid as long as this object.
struct RequestColumns {
    RequestColumns(const Column& size_of_each, const Column& start_of_each,
                   const Column& end_of_each)
        : size(copy(size_of_each)),
          start(copy(start_of_each)),
          end(copy(end_of_each)),
          requests(size, start, end) {}
    RequestColumns(const RequestColumns&) = delete;
    RequestColumns& operator=(const RequestColumns&) = delete;

    const std::vector<std::int64_t> size, start, end;
    const Requests requests;
};

}  // namespace

void bind_homosize(nb::module_& module) {
    module.def(
        "fuse_local_plans",
        [](Column size, Column start, Column end, Column address, Column guest_size,
           Column guest_start, Column guest_end, bool within, double seconds) {
            const RequestColumns host(size, start, end);
            const RequestColumns guests(guest_size, guest_start, guest_end);
            const std::vector<std::int64_t> host_address = copy(address);
            return to_numpy(without_python(seconds, [&](Stop& stop) {
                return fuse(host.requests, host_address, guests.requests, within, stop);
            }));
        },
        nb::arg("size"), nb::arg("start"), nb::arg("end"), nb::arg("address"),
        nb::arg("guest_size"), nb::arg("guest_start"), nb::arg("guest_end"), nb::arg("within"),
        nb::arg("seconds"),
        "Addresses of guests, in the order of their starts, that are inserted into a host's plan; "
        "-1 for those left over where they have to stay within its bytes.");
    module.def(
        "memory_layers",
        [](Column start, Column end) {
            const auto starts = copy(start), ends = copy(end);
            return to_numpy(memory_layers(starts, ends));
        },
        nb::arg("start"), nb::arg("end"),
        "Algorithm 1: the layer of each request of one size, in the order of their starts.");
    module.def(
        "plan_in_layers",
        [](Column size, Column start, Column end, bool smallest_first, bool beside,
           double seconds) {
            const RequestColumns columns(size, start, end);
            LayeredPlan plan = without_python(seconds, [&](Stop& stop) {
                return plan_in_layers(columns.requests, {smallest_first, beside}, stop);
            });
            return std::tuple(to_numpy(std::move(plan.layer)), to_numpy(std::move(plan.within)),
                              to_numpy(std::move(plan.layer_size)));
        },
        nb::arg("size"), nb::arg("start"), nb::arg("end"), nb::arg("smallest_first"),
        nb::arg("beside"), nb::arg("seconds"),
        "Layer of each request, the bytes of the layer below it, and the sizes of the layers; "
        "for requests by falling size, then by start.");
}

}  // namespace gapless::bindings
