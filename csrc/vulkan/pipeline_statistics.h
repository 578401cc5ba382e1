// What the driver's compiler made of a pipeline (VK_KHR_pipeline_executable_properties): registers, shared and spilled
// memory decide a kernel's fate. One line per pipeline to the standard error stream when AULE_PIPELINE_STATISTICS=1,
// and kept for the caller while that is asked for.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "vulkan/loader.h"

namespace aule::vulkan {
struct DeviceImpl;

// Kernel and specialization constants; what the driver tells of them.
using PipelineStatistics = std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>;

// Whether anybody wants them; pipelines must then be created with VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR.
bool wants_pipeline_statistics(const DeviceImpl& device);
void report_pipeline_statistics(DeviceImpl& device, VkPipeline pipeline, const std::string& label);

// From now on (or no longer) those of new pipelines are kept; returns what was kept until now.
std::vector<PipelineStatistics> keep_pipeline_statistics(bool keep);

}  // namespace aule::vulkan
