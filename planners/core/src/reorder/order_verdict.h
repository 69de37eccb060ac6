#pragma once

namespace gapless {

// How a search for an order below a limit ended: it found the best order; it proved that no order
// is below the limit; or it reached the caller's limit on states or flows.
enum class OrderVerdict { kFound, kRefuted, kStateLimit };

}  // namespace gapless
