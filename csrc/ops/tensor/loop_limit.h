// The loop iterations that one invocation may have. Some software drivers end a shader's loops after a number of
// iterations that all loops of an invocation share (Caps::max_loop_iterations), and report nothing. If data decides how
// long a loop is, its planner asks here. It splits longer loops over invocations or passes, or takes another kernel.
// Other devices have no limit.
#pragma once
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/caps.h"

namespace aule::ops {

inline bool walks_limited(const Caps& caps) { return caps.max_loop_iterations != 0; }

// Iterations, of all loops together, that a planner may give one invocation. It is half of the driver's limit, because
// a driver may count loops that the shader's source does not show.
inline uint64_t longest_walk(const Caps& caps) {
  if (!walks_limited(caps)) return std::numeric_limits<uint64_t>::max();
  return std::max<uint64_t>(1, caps.max_loop_iterations / 2);
}
inline bool may_walk(const Caps& caps, uint64_t iterations) { return iterations <= longest_walk(caps); }

// The text of a refusal about the device.
inline std::string loop_limit_text(const Caps& caps) {
  return "this device's driver ends loops after " + std::to_string(caps.max_loop_iterations) + " iterations (" +
         caps.driver_name + " " + caps.driver_info + ")";
}
// For the few kernels with loops that cannot be split: throws and names the op.
inline void check_walk(const char* op, const Caps& caps, uint64_t iterations) {
  TORCH_CHECK_NOT_IMPLEMENTED(may_walk(caps, iterations), op, ": the sizes need a loop of ", iterations,
                              " iterations, but ", loop_limit_text(caps));
}

}  // namespace aule::ops
