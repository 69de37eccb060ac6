// Fusion of two local plans: the requests of one are inserted into the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "homosize/requests.h"
#include "model/stop.h"

namespace gapless {

// Note [Fusion]
// ~~~~~~~~~~~~~
// This is the published stepping. The host's requests keep their addresses. An address `addr`
// starts at the lowest of them. Among the guests that fit at `addr` between the host's requests,
// the guest with the earliest start is placed at `addr`, and `addr` moves to the end of that guest.
// If no guest fits, `addr` moves to the next higher address of the host. The paper does not say
// what happens behind the last address. Here the next address is the top of the host, where every
// guest fits. If guests must stay `within` the host's bytes, the guests without a place are left
// over, with address `kLeftOver`.
//
// `addr` only rises, so guests never overlap each other. A guest fits at `addr` if the host leaves
// those bytes free during the guest's lifetime. A guest that does not fit is tested again when
// `addr` reaches the guest's next free address, and not at every step. This reduces the published H
// * G tests to about one for each guest.

constexpr std::int64_t kLeftOver = -1;

// Returns the addresses of the guests, which must be sorted by start. Throws std::invalid_argument
// if they are not sorted, if the host has no request, or if the host's addresses do not fit its
// requests or are negative. Throws std::overflow_error for more bytes than any problem may have.
std::vector<std::int64_t> fuse(Requests host, std::span<const std::int64_t> host_address,
                               Requests guests, bool within, Stop& stop);

}  // namespace gapless
