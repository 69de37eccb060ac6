#include <nanobind/stl/tuple.h>

#include "arrays.h"
#include "fusion.h"
#include "memory_layers.h"

namespace gapless::bindings {

namespace {

using Column = Array<std::int64_t>;

Requests to_requests(const Column& size, const Column& start, const Column& end) {
    if (start.shape(0) != size.shape(0) || end.shape(0) != size.shape(0)) {
        throw std::invalid_argument("requests need a size, a start and an end each");
    }
    return {view(size), view(start), view(end)};
}

}  // namespace

void bind_homosize(nb::module_& module) {
    module.def(
        "fuse_local_plans",
        [](Column size, Column start, Column end, Column address, Column guest_size,
           Column guest_start, Column guest_end, bool within, double seconds) {
            const Requests host = to_requests(size, start, end);
            const Requests guests = to_requests(guest_size, guest_start, guest_end);
            if (host.count() == 0 || address.shape(0) != size.shape(0)) {
                throw std::invalid_argument("a host needs requests, with an address each");
            }
            Stop stop = stop_after(seconds);
            std::vector<std::int64_t> guest_address;
            {
                nb::gil_scoped_release without_python;
                guest_address = fuse(host, view(address), guests, within, stop);
            }
            return to_numpy(std::move(guest_address));
        },
        nb::arg("size"), nb::arg("start"), nb::arg("end"), nb::arg("address"),
        nb::arg("guest_size"), nb::arg("guest_start"), nb::arg("guest_end"), nb::arg("within"),
        nb::arg("seconds"),
        "Addresses of guests, in the order of their starts, that are inserted into a host's plan; "
        "-1 for those left over where they have to stay within its bytes.");
    module.def(
        "memory_layers",
        [](Column start, Column end) {
            if (start.shape(0) != end.shape(0)) {
                throw std::invalid_argument("requests need a start and an end each");
            }
            std::vector<std::int64_t> layer;
            {
                nb::gil_scoped_release without_python;
                layer = memory_layers(view(start), view(end));
            }
            return to_numpy(std::move(layer));
        },
        nb::arg("start"), nb::arg("end"),
        "Algorithm 1: the layer of each request of one size, in the order of their starts.");
    module.def(
        "plan_in_layers",
        [](Column size, Column start, Column end, bool smallest_first, bool beside,
           double seconds) {
            const Requests requests = to_requests(size, start, end);
            Stop stop = stop_after(seconds);
            LayeredPlan plan;
            {
                nb::gil_scoped_release without_python;
                plan = plan_in_layers(requests, {smallest_first, beside}, stop);
            }
            return std::tuple(to_numpy(std::move(plan.layer)), to_numpy(std::move(plan.within)),
                              to_numpy(std::move(plan.layer_size)));
        },
        nb::arg("size"), nb::arg("start"), nb::arg("end"), nb::arg("smallest_first"),
        nb::arg("beside"), nb::arg("seconds"),
        "Layer of each request, the bytes of the layer below it, and the sizes of the layers; "
        "for requests by falling size, then by start.");
}

}  // namespace gapless::bindings
