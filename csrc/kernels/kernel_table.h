// (row of the generated table, specialization constants) -> pipeline, per device.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/launch.h"

namespace aule::vulkan {
class Device;
class Pipeline;
}  // namespace aule::vulkan

namespace aule::kernels {

// Created on first use; the second lookup of a thread costs a hash and a compare.
const vulkan::Pipeline& pipeline_for(vulkan::Device& device, uint16_t row, const Spec& spec);
std::vector<std::string> active_pipelines(int device);

}  // namespace aule::kernels
