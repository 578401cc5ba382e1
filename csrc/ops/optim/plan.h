// Choices of optimizers that depend on the device: pure functions.
#pragma once
#include <cstdint>

#include "core/device_profile.h"

namespace aule::ops {

// Elements of a tensor, on average, up to which one dispatch for many tensors serves foreach operators: it saves the
// cost of dispatches. Larger tensors are faster with the kernels of single tensors: on lavapipe 22.3 from 2048 elements
// on. The bound for GPUs is an estimate.
inline int64_t foreach_most_elems(const DeviceProfile& profile) { return profile.is_software() ? 1024 : 65536; }

// 16-byte accesses. lavapipe 22.3 makes them element by element, so they gain nothing there.
inline bool adam_uses_vec16b(const DeviceProfile& profile) { return !profile.is_software(); }

}  // namespace aule::ops
