#include "kernels/fixed_kernel.h"

#include "kernels/launch.h"
#include "kernels/pipelines.h"
#include "kernels/recorded.h"
#include "stream/command_stream.h"
#include "vulkan/pipeline.h"

namespace aule {

uint64_t FixedKernel::shared_bytes() const { return aule::shared_bytes(id_, spec_); }

void FixedKernel::launch(CommandStream& stream, const void* params, size_t params_bytes, const Args& args,
                         Grid grid) const {
  record_dispatch(stream, pipeline(stream), params, params_bytes, args, grid);
}

const vulkan::Pipeline& FixedKernel::pipeline(CommandStream& stream) const {
  std::atomic<const vulkan::Pipeline*>& place = pipelines_[static_cast<size_t>(stream.device_index())];
  const vulkan::Pipeline* found = place.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = &kernels::pipeline_for(stream.device(), id_, spec_);
    place.store(found, std::memory_order_release);
  }
  return *found;
}

}  // namespace aule
