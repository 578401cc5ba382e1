// What kernels in a captured graph share.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace aule::runtime {

// A tensor that the graph under capture on this device keeps until its capture ends, undefined at first: zeros that its
// kernels leave as zeros, so that one fill of a replay serves them all. Null while nothing is captured on the current
// stream.
at::Tensor* zeros_of_capture(c10::DeviceIndex device);

}  // namespace aule::runtime
