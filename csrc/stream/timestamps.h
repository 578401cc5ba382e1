// Timestamp queries of one stream: slots in pools of 256, handed out and taken back.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "vulkan/check.h"
#include "vulkan/device_impl.h"

namespace aule::stream {

class Timestamps {
 public:
  explicit Timestamps(vulkan::DeviceImpl& device) : device_(device) {}

  int32_t acquire() {
    if (free_.empty()) {
      const VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, nullptr, 0, VK_QUERY_TYPE_TIMESTAMP, kPool, 0};
      VkQueryPool pool = VK_NULL_HANDLE;
      VK_CHECK(device_.vk.vkCreateQueryPool(device_.handle, &info, nullptr, &pool));
      for (int32_t i = kPool - 1; i >= 0; --i) free_.push_back(static_cast<int32_t>(pools_.size()) * kPool + i);
      pools_.push_back(pool);
    }
    const int32_t slot = free_.back();
    free_.pop_back();
    device_.vk.vkResetQueryPool(device_.handle, pool_of(slot), index_of(slot), 1);
    return slot;
  }
  void write(VkCommandBuffer commands, int32_t slot) {
    device_.vk.vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, pool_of(slot), index_of(slot));
  }
  double read_ms(int32_t slot) const {
    uint64_t ticks = 0;
    VK_CHECK(device_.vk.vkGetQueryPoolResults(device_.handle, pool_of(slot), index_of(slot), 1, sizeof ticks, &ticks, 8,
                                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    return static_cast<double>(ticks) * device_.caps->timestamp_period_ns * 1e-6;
  }
  // The slot may still be written by work in flight (timeline value `value`): it rests until others have been used.
  void release(int32_t slot, uint64_t value) {
    resting_.push_back({slot, value});
  }
  template <class Reached>
  void settle(Reached reached) {
    for (size_t i = 0; i < resting_.size();) {
      if (!reached(resting_[i].second)) { ++i; continue; }
      free_.push_back(resting_[i].first);
      resting_[i] = resting_.back();
      resting_.pop_back();
    }
  }

 private:
  static constexpr int32_t kPool = 256;
  VkQueryPool pool_of(int32_t slot) const { return pools_[static_cast<size_t>(slot / kPool)]; }
  static uint32_t index_of(int32_t slot) { return static_cast<uint32_t>(slot % kPool); }
  vulkan::DeviceImpl& device_;
  std::vector<VkQueryPool> pools_;
  std::vector<int32_t> free_;
  std::vector<std::pair<int32_t, uint64_t>> resting_;
};

}  // namespace aule::stream
