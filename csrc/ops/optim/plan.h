// Choices of optimizers that depend on the device: pure functions.
#pragma once
#include <cstdint>

#include "core/device_profile.h"

namespace aule::ops {

// Elements of a tensor, on average, up to which one dispatch for many tensors serves foreach operators: it saves the
// cost of dispatches. Larger tensors are faster with the kernels of single tensors: on lavapipe 22.3 from 2048 elements
// on. For GPUs it is an estimate: the host takes some 4 us to record an operator for one tensor, in which an H100 moves
// the 8 to 12 MB of a million elements. ResNet-18 has 190,000 elements for each parameter, a perceptron of 512 columns
// 110,000.
inline int64_t foreach_most_elems(const DeviceProfile& profile) { return profile.is_software() ? 1024 : 1 << 20; }

// 16-byte accesses. lavapipe 22.3 makes them element by element, so they gain nothing there.
inline bool adam_uses_vec16b(const DeviceProfile& profile) { return !profile.is_software(); }

}  // namespace aule::ops
