// Capabilities of a visible device, without creating it: what the op layer plans with.
#pragma once
#include <c10/core/Device.h>

#include "kernels/caps.h"

namespace aule::runtime {
const Caps& device_caps(c10::DeviceIndex device);
}
