// The device's insides, for csrc/vulkan, csrc/stream and csrc/kernels only.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device_profile.h"
#include "vulkan/device.h"
#include "vulkan/loader.h"

namespace aule::vulkan {

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  std::mutex mutex;  // vkQueueSubmit2 wants external synchronisation
};

class LoopGuard;
class PipelineStore;

struct DeviceImpl {
  int index = 0;
  DeviceProfile profile;  // the enumerated one, and what was measured when the device was created
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice handle = VK_NULL_HANDLE;
  DeviceFunctions vk;
  const Functions* instance_vk = nullptr;
  bool labels = false;
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;
  std::vector<std::unique_ptr<Queue>> queues;           // compute queues of one family
  std::vector<std::unique_ptr<Queue>> transfer_queues;  // that only copy, of another family; none on many devices
  uint32_t transfer_family = 0, transfer_timestamp_bits = 0;
  // Whether copies leave the streams of kernels. On a software device they do for the tests.
  bool copies_beside_kernels() const { return !transfer_queues.empty() || profile.is_software(); }
  bool sparse_queue = false;
  VkPhysicalDeviceMemoryProperties memory_properties{};
  std::unique_ptr<MemoryPool> memory;
  bool maps_blocks = false;  // the host sees memory of tensors: all of it (unified memory), or that of small ones
  std::unique_ptr<LoopGuard> loop_guard;  // null if the driver ends no loops
  std::unique_ptr<PipelineStore> pipelines;
  Segment* error_record = nullptr;  // host-visible, see shaders/common/errors.glsl; 256 bytes, loop_guard.h has its own

  // A lost device stays lost. Every later call throws the first failure's text again.
  std::atomic<bool> lost{false};
  std::mutex lost_mutex;
  std::string lost_text;
  std::atomic<bool> lose_next_submit{false};  // test hook
  void mark_lost(const char* call, const std::string& in_flight);
  // Throws what fits `result`; a lost device is remembered, with the kernels that were in flight.
  [[noreturn]] void fail(VkResult result, const char* call, const char* file, int line, const std::string& in_flight);
  [[noreturn]] void throw_lost();
  void check_alive() {
    if (lost.load(std::memory_order_relaxed)) throw_lost();
  }
};

}  // namespace aule::vulkan
