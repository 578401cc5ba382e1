#include "vulkan/loop_guard.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/memory.h"
#include "vulkan/spirv_loop_guard.h"

namespace aule::vulkan {

LoopGuard::LoopGuard(DeviceImpl& device) : device_(device) {
  const auto& vk = device.vk;
  const VkDescriptorSetLayoutBinding binding{0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT,
                                             nullptr};
  VkDescriptorSetLayoutCreateInfo layout{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  layout.bindingCount = 1;
  layout.pBindings = &binding;
  VK_CHECK(vk.vkCreateDescriptorSetLayout(device.handle, &layout, nullptr, &set_layout_));
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = 1;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;  // all objects here live as long as the device
  VK_CHECK(vk.vkCreateDescriptorPool(device.handle, &pool_info, nullptr, &pool));
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &set_layout_;
  VK_CHECK(vk.vkAllocateDescriptorSets(device.handle, &info, &set_));

  const Segment& record = *device.error_record;
  const LoopGuardBuffer read{record.address + kLoopGuardRecordAt};
  std::memcpy(static_cast<char*>(record.mapped) + kLoopGuardBufferAt, &read, sizeof read);
  const VkDescriptorBufferInfo buffer{static_cast<VkBuffer>(record.buffer), kLoopGuardBufferAt, sizeof read};
  VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set_;
  write.descriptorCount = 1;
  write.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
  write.pBufferInfo = &buffer;
  vk.vkUpdateDescriptorSets(device.handle, 1, &write, 0, nullptr);
}

std::vector<uint32_t> LoopGuard::guarded(const uint32_t* words, size_t word_count, const std::string& label) {
  const uint32_t hash = kernel_hash(label);
  GuardedModule module = guard_loops(words, word_count, hash);
  if (!module.not_understood.empty())  // no kernel of ours (test/large/test_long_loops.py)
    std::fprintf(stderr, "torch_aule: %s: long loops would be cut unnoticed on this device: %s\n", label.c_str(),
                 module.not_understood.c_str());
  if (!module.words.empty()) {
    std::lock_guard lock(mutex_);
    labels_[hash] = label;
  }
  return std::move(module.words);
}

std::string LoopGuard::take_report() {
  auto* word = reinterpret_cast<uint32_t*>(static_cast<char*>(device_.error_record->mapped) + kLoopGuardRecordAt);
  std::atomic_ref<uint32_t> record(*word);
  if (record.load(std::memory_order_acquire) == 0) return {};
  const uint32_t hash = record.exchange(0);
  if (hash == 0) return {};  // another thread throws it
  std::lock_guard lock(mutex_);
  const auto label = labels_.find(hash);
  const Caps& caps = device_.profile;
  return (label == labels_.end() ? std::string("a kernel") : label->second) + ": results are incomplete. The driver (" +
         caps.driver_name + " " + caps.driver_info + ") ends the loops of a shader after " +
         std::to_string(caps.driver_loop_limit) +
         " iterations of one invocation, and this kernel needs more for tensors of this size. "
         "Use a driver without that limit (lavapipe of Mesa 26.2 has none) or shorter rows.";
}

}  // namespace aule::vulkan
