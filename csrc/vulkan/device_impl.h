// The device's insides, for csrc/vulkan, csrc/stream and csrc/kernels only.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/caps.h"
#include "vulkan/device.h"
#include "vulkan/loader.h"

namespace aule::vulkan {

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  std::mutex mutex;  // vkQueueSubmit2 wants external synchronisation
};

class PipelineStore;

struct DeviceImpl {
  int index = 0;
  const Caps* caps = nullptr;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice handle = VK_NULL_HANDLE;
  DeviceFunctions vk;
  const Functions* instance_vk = nullptr;
  bool labels = false;
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;
  std::vector<std::unique_ptr<Queue>> queues;  // compute queues of one family
  bool sparse_queue = false;
  VkPhysicalDeviceMemoryProperties memory_properties{};
  std::unique_ptr<MemoryPool> memory;
  std::unique_ptr<PipelineStore> pipelines;
  Segment* error_record = nullptr;  // host-visible, see shaders/common/errors.glsl

  // A lost device stays lost: the first failure's text is kept and thrown again by every later call.
  std::atomic<bool> lost{false};
  std::mutex lost_mutex;
  std::string lost_text;
  [[noreturn]] void mark_lost(const std::string& text);
  void check_alive();
};

}  // namespace aule::vulkan
