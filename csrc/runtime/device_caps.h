// Capabilities of a visible device, without creating it: what the op layer plans with.
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "core/caps.h"

namespace aule::runtime {

const Caps& device_caps(c10::DeviceIndex device);
// The file of what was measured on this device and driver to plan with (torch_aule.tune); empty: no cache folder.
std::string tuning_file(c10::DeviceIndex device);

}  // namespace aule::runtime
