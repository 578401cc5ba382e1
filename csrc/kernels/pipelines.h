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

// Created on first use, when its compilation starts (vulkan/compile_threads.h); every later lookup costs a hash and a
// compare. Kernels with equal SPIR-V share theirs.
const vulkan::Pipeline& pipeline_for(vulkan::Device& device, KernelId id, SpecWords spec);
// Bytes of shared memory of a kernel with these constants; see SharedMemory. Asks no device.
uint64_t shared_bytes(KernelId id, SpecWords spec);
std::vector<std::string> active_pipelines(int device);
void compile_pipeline(vulkan::Device& device, KernelId id, SpecWords spec);  // until it is ready; raises why it is not
void drop_pipelines(KernelId id);  // of a kernel that is gone, on every device
// Waits for compilations, then writes the driver's cache to disk if something new was compiled; never throws.
void save_pipelines(int device);
struct CompileTimes {
  uint64_t pipelines = 0;      // compiled so far
  double driver_seconds = 0;  // the driver's time for them, the sum over all threads
};
CompileTimes compile_times(int device);

}  // namespace aule::kernels
