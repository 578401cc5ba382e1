// A kernel together with its specialization constants: a launch finds its pipeline by one load, not by a hash.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/access.h"
#include "core/kernel_source.h"
#include "core/per_device.h"

namespace aule {

namespace vulkan {
class Pipeline;
}
namespace stream {
class CommandStream;
}

class FixedKernel {
 public:
  FixedKernel(KernelId id, std::vector<uint32_t> spec) : id_(id), spec_(std::move(spec)) {}

  KernelId id() const { return id_; }
  uint64_t shared_bytes() const;
  void launch(stream::CommandStream& stream, const void* params, size_t params_bytes, const Args& args,
              Grid grid) const;
  // Starts to compile the pipeline of the stream's device, which the first launch would do else.
  void prepare(stream::CommandStream& stream) const { pipeline(stream); }

 private:
  const vulkan::Pipeline& pipeline(stream::CommandStream& stream) const;

  const KernelId id_;
  const std::vector<uint32_t> spec_;
  mutable std::array<std::atomic<const vulkan::Pipeline*>, kMaxDevices> pipelines_{};
};

}  // namespace aule
