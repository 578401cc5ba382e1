#include "ops/tensor/private_stream.h"

#include <c10/core/Device.h>

#include "runtime/streams.h"

namespace aule::ops {

void on_private_stream(int device, const std::function<void()>& body) {
  const auto before = runtime::exchange_stream(runtime::private_stream(static_cast<c10::DeviceIndex>(device)));
  try {
    body();
  } catch (...) {
    runtime::exchange_stream(before);
    throw;
  }
  runtime::exchange_stream(before);
}

}  // namespace aule::ops
