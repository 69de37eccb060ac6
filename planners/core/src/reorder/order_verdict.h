// How a search for an order below a limit ended.
#pragma once

namespace gapless {

// The best is found; there is none below the limit; or the caller's limit came first.
enum class OrderVerdict { kFound, kRefuted, kStateLimit };

}  // namespace gapless
