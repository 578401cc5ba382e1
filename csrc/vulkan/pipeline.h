// Compute pipelines: one layout for all (push constants only; the loop guard's descriptor set on devices that need
// one), created on first use from a row of the kernel table and its specialization constants, with the driver's
// pipeline cache kept on disk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/caps.h"
#include "vulkan/loader.h"

namespace aule::vulkan {

struct DeviceImpl;

// The size of push constants in the one layout: 128 bytes by Vulkan's promise, 256 where the device has them. Larger
// blocks go through the parameter ring.
inline uint32_t push_constant_bytes(const Caps& caps) { return caps.max_push_constant_bytes >= 256 ? 256 : 128; }

class PipelineStore;

class Pipeline : public std::enable_shared_from_this<Pipeline> {
 public:
  ~Pipeline();
  VkPipeline handle = VK_NULL_HANDLE;
  std::string label;  // "softmax<C=float>(0,1)": debug labels, errors
  bool params_ring = false;
  bool loop_guard = false;  // it may write the loop guard's record
  uint32_t params_bytes = 0;
  uint32_t id = 0;  // dense, per process: the cost model's index
  // True for a kernel compiled at run time: recorded work holds it, and it is destroyed with its last holder. Others
  // stay.
  bool temporary = false;
  PipelineStore* store = nullptr;
};

struct PipelineRequest {
  const char* name;
  const unsigned char* spirv;
  size_t spirv_bytes;
  bool params_ring;
  uint32_t params_bytes;
  const uint32_t* constants;  // constant_id i = element i
  size_t constant_count;
  bool temporary;
};

class PipelineStore {
 public:
  explicit PipelineStore(DeviceImpl& device);
  ~PipelineStore();
  std::shared_ptr<Pipeline> create(const PipelineRequest& request);
  VkPipelineLayout layout() const { return layout_; }
  std::vector<std::string> labels() const;  // of those that live
  void wait_idle();
  std::string file() const;  // empty: nothing is kept
  void save();               // writes the cache file if something new was compiled; never throws

 private:
  friend class Pipeline;
  void destroy(const Pipeline& pipeline) noexcept;
  struct Disk;
  DeviceImpl& device_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::unique_ptr<Disk> disk_;
};

}  // namespace aule::vulkan
