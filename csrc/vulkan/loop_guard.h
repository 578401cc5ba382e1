// The guard for drivers that end loops early: the descriptor set that guarded modules (spirv_loop_guard.h) read, and
// the record that they write.
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
  explicit LoopGuard(DeviceImpl& device);  // the device must have its error record
  VkDescriptorSetLayout set_layout() const { return set_layout_; }
  VkDescriptorSet set() const { return set_; }  // 0 of every pipeline layout; bound once per command buffer

  // The module to compile for the kernel `label`, or nothing if it needs no guard.
  std::vector<uint32_t> guarded(const uint32_t* words, size_t word_count, const std::string& label);
  // A message about the kernel with loops cut since the last call, or nothing.
  std::string take_report();

 private:
  DeviceImpl& device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::unordered_map<uint32_t, std::string> labels_;  // by kernel_hash
};

// Offsets in the device's error record, in bytes: of the guard's input, and of the word that a cut kernel writes.
constexpr uint32_t kLoopGuardBufferAt = 64, kLoopGuardRecordAt = 128;

}  // namespace aule::vulkan
