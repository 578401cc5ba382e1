// Devices. Enumeration never creates a VkDevice (safe before fork); Device::get does, once, under a lock.
//
// Order: discrete, integrated, virtual, CPU. CPU devices (lavapipe) are listed only when no real GPU is, or when
// TORCH_AULE_VISIBLE_DEVICES names them. TORCH_AULE_VISIBLE_DEVICES: comma list of index | substring of the name | UUID
// prefix; naming one device twice gives two logical devices (used to test several devices on one).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/device_profile.h"
#include "vulkan/memory.h"

namespace aule::vulkan {

int device_count() noexcept;            // 0 without loader or device, never throws
bool device_has_priorities(int index);  // several queues, some of high priority
std::string unavailable_reason();       // why device_count() is 0, for people
// Does not create the device; before that it lacks what only the device answers. Raises if there is no such device.
const DeviceProfile& device_profile(int index);
bool device_created(int index) noexcept;

// Test hook: the next submission returns VK_ERROR_DEVICE_LOST. TORCH_AULE_INJECT_DEVICE_LOST=<n> does this to the n-th
// submission of the process.
void inject_device_lost(int index);

struct DeviceImpl;
class Device {
 public:
  static Device& get(int index);
  int index() const;
  const DeviceProfile& profile() const;
  MemoryPool& memory();
  DeviceImpl& impl() { return *impl_; }  // for csrc/vulkan, csrc/stream and csrc/kernels only

  explicit Device(std::unique_ptr<DeviceImpl> impl);
  ~Device();

 private:
  std::unique_ptr<DeviceImpl> impl_;
};

}  // namespace aule::vulkan
