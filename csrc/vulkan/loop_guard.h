// The guard against loops that a driver ended early, on devices that do so: the descriptor set that guarded modules
// (spirv_loop_guard.h) read, and the record that they write.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "vulkan/loader.h"

namespace aule::vulkan {

struct DeviceImpl;

class LoopGuard {
 public:
  explicit LoopGuard(DeviceImpl& device);  // which has its error record
  VkDescriptorSetLayout set_layout() const { return set_layout_; }
  VkDescriptorSet set() const { return set_; }  // 0 of every pipeline layout; bound once per command buffer

  // The module as it shall be compiled for the kernel `label`; empty: as it is.
  std::vector<uint32_t> guarded(const uint32_t* words, size_t word_count, const std::string& label);
  // A sentence about the kernel that was cut since the last call, or nothing.
  std::string take_report();

 private:
  DeviceImpl& device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::unordered_map<uint32_t, std::string> labels_;  // by kernel_hash
};

// Of the device's error record: bytes in front of what the guard reads, and of what a kernel writes.
constexpr uint32_t kLoopGuardBufferAt = 64, kLoopGuardRecordAt = 128;

}  // namespace aule::vulkan
