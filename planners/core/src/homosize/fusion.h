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
// The published stepping. The host's addresses stand. An address `addr` starts at the lowest of
// them. Of the guests that fit at `addr` while the host's bytes there are taken, the one that
// starts first goes to `addr`, which then moves to the end of it; where none fits, `addr` moves to
// the next higher address of the host. What the text leaves open: behind the last address of the
// host comes its top, where everything fits; or, where guests have to stay `within` the host's
// bytes, those that have not found a place by then are left over, with the address `kLeftOver`.
//
// `addr` only rises, so guests never meet each other, and what a guest may do is decided by the
// host alone: it fits at `addr` if `addr` is a free address of its lifetime. A guest that does not
// fit is asked again when `addr` has reached its next free address, not at every step, which
// turns the published H * G questions into about as many as there are guests.

constexpr std::int64_t kLeftOver = -1;

// Addresses of the guests, which come in the order of their starts. Throws std::invalid_argument
// unless they do, and for a host without requests or without an address of at least 0 for each;
// std::overflow_error for more bytes than any problem has.
std::vector<std::int64_t> fuse(Requests host, std::span<const std::int64_t> host_address,
                               Requests guests, bool within, Stop& stop);

}  // namespace gapless
