// Enumeration and choice of physical devices; nothing here creates a VkDevice.
#pragma once
#include <string>
#include <vector>

#include "core/device_profile.h"
#include "vulkan/loader.h"

namespace aule::vulkan {

struct Instance;

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceProfile profile;
  std::string missing;         // baseline requirements that it lacks; empty: usable
  std::string refused_limits;  // those of TORCH_AULE_LIMITS that it cannot have; empty: usable
  uint32_t queue_family = 0, queue_count = 0, timestamp_bits = 0;
  // The family whose queues only copy; no queues where the device has none.
  uint32_t transfer_family = 0, transfer_count = 0, transfer_timestamp_bits = 0;
  bool sparse_queue = false;
  bool sparse_memory = false;  // and the features for it
  bool software = false;       // a CPU, whatever the switches of features.h make of the profile's kind
  std::vector<std::string> extensions;
  bool has_extension(const char* name) const;
};

struct Enumeration {
  std::vector<PhysicalDevice> visible;
  std::string reason;                // why visible is empty
  bool lacks_compute_queue = false;  // a compute queue is all that the devices lack
};
const Enumeration& enumeration();  // once per process; never throws
// There is no such device, or none at all: `text`, and why, as FailureKind::vulkan_init or no_compute_queue.
[[noreturn]] void raise_unavailable(const std::string& text);

}  // namespace aule::vulkan
