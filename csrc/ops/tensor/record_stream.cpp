#include "ops/tensor/record_stream.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace aule::ops {
void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
              "record_stream: expected a stream of device aule, got ", stream);
  c10::getDeviceAllocator(c10::DeviceType::PrivateUse1)->recordStream(self.storage().data_ptr(), stream);
}
}  // namespace aule::ops
