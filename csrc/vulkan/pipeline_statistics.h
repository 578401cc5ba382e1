// The driver compiler's statistics of a pipeline (VK_KHR_pipeline_executable_properties): registers, shared and spilled
// memory. TORCH_AULE_PIPELINE_STATISTICS=1 prints one line per pipeline to the standard error stream. A caller may also
// have them kept.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "vulkan/loader.h"

namespace aule::vulkan {
struct DeviceImpl;

// Kernel and specialization constants, and the driver's statistics of them.
using PipelineStatistics = std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>;

// True if statistics are printed or kept. Pipelines are then created with
// VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR.
bool wants_pipeline_statistics(const DeviceImpl& device);
void report_pipeline_statistics(DeviceImpl& device, VkPipeline pipeline, const std::string& label);

// Starts or ends keeping statistics of new pipelines. Returns those that were kept until now.
std::vector<PipelineStatistics> keep_pipeline_statistics(bool keep);

}  // namespace aule::vulkan
