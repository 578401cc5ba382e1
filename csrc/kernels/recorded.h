// How much this thread has recorded: whether a call has begun to work on its arguments.
#pragma once
#include <cstdint>

namespace aule {

// Kernels, copies to the device and fills that this thread has recorded so far, on any stream.
uint64_t recorded_commands();

}  // namespace aule
