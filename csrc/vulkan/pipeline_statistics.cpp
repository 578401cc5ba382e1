#include "vulkan/pipeline_statistics.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "core/environment.h"
#include "vulkan/device_impl.h"

namespace aule::vulkan {
namespace {

bool are_printed() { return environment().pipeline_statistics; }

std::atomic<bool> are_kept{false};
std::mutex kept_mutex;
std::vector<PipelineStatistics>& kept() {
  static auto& statistics = *new std::vector<PipelineStatistics>;
  return statistics;
}

}  // namespace

bool wants_pipeline_statistics(const DeviceImpl& device) {
  return (are_printed() || are_kept) && device.profile.pipeline_executable_properties;
}

void report_pipeline_statistics(DeviceImpl& device, VkPipeline pipeline, const std::string& label) {
  VkPipelineInfoKHR of_pipeline{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, nullptr, pipeline};
  uint32_t executables = 0;
  if (device.vk.vkGetPipelineExecutablePropertiesKHR(device.handle, &of_pipeline, &executables, nullptr) < 0) return;
  std::vector<VkPipelineExecutablePropertiesKHR> properties(executables);
  for (auto& p : properties) p.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
  if (device.vk.vkGetPipelineExecutablePropertiesKHR(device.handle, &of_pipeline, &executables, properties.data()) < 0)
    return;
  PipelineStatistics statistics{label, {}};
  for (uint32_t i = 0; i < executables; ++i) {
    statistics.second.emplace_back("Subgroup size", properties[i].subgroupSize);
    const VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, nullptr, pipeline, i};
    uint32_t count = 0;
    device.vk.vkGetPipelineExecutableStatisticsKHR(device.handle, &info, &count, nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> rows(count);
    for (auto& row : rows) row.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    if (device.vk.vkGetPipelineExecutableStatisticsKHR(device.handle, &info, &count, rows.data()) < 0) return;
    for (const auto& row : rows) {
      // The upper half of a number is constant garbage on NVIDIA (driver 580.159).
      const uint64_t value = row.value.u64 & 0xffffffffu;
      if (row.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR) continue;
      statistics.second.emplace_back(row.name, value);
    }
  }
  if (are_printed()) {
    std::string line = label + ":";
    for (const auto& [name, value] : statistics.second) line += " " + name + " " + std::to_string(value) + ";";
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  if (are_kept) {
    std::lock_guard lock(kept_mutex);
    kept().push_back(std::move(statistics));
  }
}

std::vector<PipelineStatistics> keep_pipeline_statistics(bool keep) {
  are_kept = keep;
  std::lock_guard lock(kept_mutex);
  return std::exchange(kept(), {});
}

}  // namespace aule::vulkan
