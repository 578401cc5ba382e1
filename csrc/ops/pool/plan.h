// Whether one launch may walk the windows of a pool, or how they are taken apart (loop_limit.h): a pure function of the
// windows and what is known of the device.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/caps.h"

namespace aule::ops {

struct PoolWindow {
  using Extent = std::array<int32_t, 3>;
  bool adaptive = false;
  Extent in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
};
// Windows of one element each along an axis: nothing to do there.
bool is_identity(const PoolWindow& w, size_t axis);

enum class PoolPass : uint8_t { avg_forward, avg_backward, max_forward, max_backward };
// The kernel of one axis, where not all are served together.
enum class PoolAxis : uint8_t {
  identity,
  whole,            // by one launch over this axis alone
  in_parts,         // windows in parts of `part_taps` taps, whose results are put together
  output_by_output  // adaptive windows, of their own lengths each
};

struct PoolPlan {
  bool at_once = true;    // one launch over all axes; the rest is then unused
  bool scatters = false;  // by adding each gradient where its index points; the axes are then unused
  std::array<PoolAxis, 3> axes{};
  int64_t part_taps = 0;
};
// Nothing where too many windows hold one element.
std::optional<PoolPlan> pool_plan(const Caps& caps, const PoolWindow& window, PoolPass pass);
std::string text_of(const PoolPlan& plan);

}  // namespace aule::ops
