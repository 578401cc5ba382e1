// Tests if the driver ends long loops early. lavapipe 22.3 counts all back edges that one invocation takes, in all its
// loops together, and ends every loop after the 65535th. It reports nothing.
#pragma once
#include <cstdint>

#include "core/caps.h"

namespace aule::vulkan {

struct DeviceImpl;

// The smallest limit known. It is assumed for a software device that was not probed or gave an invalid answer.
constexpr uint32_t kAssumedLoopLimit = 65535;

// Iterations that are left for the guard's own loop (spirv_loop_guard.h).
constexpr uint32_t kGuardTurns = 16;

// Back edges that one invocation may take, 0: no limit was met in 2^17. Runs one invocation of
// shaders/device/loop_limit.glsl on a device that has its queues and memory; never throws.
uint32_t probe_loop_limit(DeviceImpl& device) noexcept;
// Both fields of `caps`; TORCH_AULE_LIMITS overrides the planners' one.
void set_loop_limit(Caps& caps, uint32_t driver_limit);

}  // namespace aule::vulkan
