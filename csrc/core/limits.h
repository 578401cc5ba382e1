// Limits that a process gives its devices (TORCH_AULE_LIMITS), so that what is planned for another device runs on this
// one. They only take away: a kernel that obeys them fits the device too.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/caps.h"

namespace aule {

// A row of core/device_limits.def.
struct DeviceSet {
  const char *name, *devices, *limits, *without;
};
std::span<const DeviceSet> device_sets();

// A limit of Caps that may be lowered: its values, one for each axis where it has three.
struct Limit {
  const char* name;
  int axes;
  uint64_t least[3];  // that plans can do with: what Vulkan promises, or room for the segments that are allocated
  uint64_t (*get)(const Caps& caps, int axis);
  void (*set)(Caps& caps, int axis, uint64_t value);
};
std::span<const Limit> limits();

// The content of TORCH_AULE_LIMITS.
struct LimitSettings {
  using Values = std::pair<const Limit*, std::vector<uint64_t>>;
  std::vector<const DeviceSet*> sets;
  std::vector<Values> of_sets, given;
  std::optional<uint32_t> max_loop_iterations;  // of planners; 0: no limit
  std::vector<std::string> ignored;             // for warnings: what had no meaning, and why
};
LimitSettings parse_limits(const std::string& text);

// Lowers the limits of `caps`. Returns what cannot be, by name: a given value that is above the device's own, or too
// small for plans. Sets are ceilings, and a given value stands over theirs.
std::string apply_limits(const LimitSettings& settings, Caps& caps);

}  // namespace aule
