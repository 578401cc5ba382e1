// (kernel, specialization constants) -> pipeline, per device.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_source.h"

namespace aule::vulkan {
class Device;
class Pipeline;
}  // namespace aule::vulkan

namespace aule::kernels {

using SpecWords = std::span<const uint32_t>;  // word i is `constant_id = i`

// Created on first use; every later lookup costs a hash and a compare. Kernels with equal SPIR-V share theirs.
const vulkan::Pipeline& pipeline_for(vulkan::Device& device, KernelId id, SpecWords spec);
// Bytes of shared memory of a kernel with these constants; see SharedMemory. Asks no device.
uint64_t shared_bytes(KernelId id, SpecWords spec);
std::vector<std::string> active_pipelines(int device);
void drop_pipelines(KernelId id);  // of a kernel that is gone, on every device
void save_pipelines(int device);   // writes the driver's cache to disk if something new was compiled; never throws

}  // namespace aule::kernels
