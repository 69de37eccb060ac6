// The device and stream that requests of this thread are for.
#pragma once

#include <cstdint>

namespace stand_in {

extern thread_local int device;
extern thread_local std::uint64_t stream;
extern int peer_copies;  // by the call that copies between devices

}  // namespace stand_in
