// (row of the generated table, specialization constants) -> pipeline, per device.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace aule::vulkan {
class Device;
class Pipeline;
}  // namespace aule::vulkan

namespace aule::kernels {

using SpecWords = std::span<const uint32_t>;  // word i is `constant_id = i`

// Created on first use; the second lookup of a thread costs a hash and a compare.
const vulkan::Pipeline& pipeline_for(vulkan::Device& device, uint16_t row, SpecWords spec);
// Bytes of shared memory of a row with these constants; see SharedMemory. Asks no device.
uint64_t shared_bytes(uint16_t row, SpecWords spec);
std::vector<std::string> active_pipelines(int device);

}  // namespace aule::kernels
