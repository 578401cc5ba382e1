// What the driver's compiler made of a pipeline (VK_KHR_pipeline_executable_properties), one line per pipeline to the
// standard error stream when AULE_PIPELINE_STATISTICS=1: registers, shared and spilled memory decide a kernel's fate.
#pragma once
#include <string>

#include "vulkan/loader.h"

namespace aule::vulkan {
struct DeviceImpl;

// Whether they are asked for; pipelines must then be created with VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR.
bool wants_pipeline_statistics(const DeviceImpl& device);
void print_pipeline_statistics(DeviceImpl& device, VkPipeline pipeline, const std::string& label);

}  // namespace aule::vulkan
