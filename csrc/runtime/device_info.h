// Devices as the layers above see them: profiles to plan with, and what Python shows of devices, kernels and drivers.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/device_profile.h"
#include "core/failure.h"

namespace aule::runtime {

// The profile of a visible device, or of the current one for -1; creates no device. Before a device is created, its
// profile lacks what only the device answers, and measured shapes.
const DeviceProfile& device_profile(c10::DeviceIndex device);
// The file of what was measured on this device and driver to plan with (torch_aule.tune); empty: no cache folder.
std::string tuning_file(c10::DeviceIndex device);

struct KernelInfo {
  std::string name;
  size_t spirv_bytes;
  bool supported;
};
std::vector<KernelInfo> registered_kernels(int device);
std::vector<std::string> active_pipelines(int device);
void save_pipelines(int device);  // to the cache on disk, where something new was compiled
// Pipelines compiled so far, and the driver's seconds for them: the sum over all threads.
std::pair<uint64_t, double> compile_times(int device);
// Builds a variant's pipeline without running it: its constants by position, those that are left out as in the shader.
// Bytes of shared memory of a kernel variant with these specialization constants; the others have their defaults.
uint64_t shared_bytes(const std::string& name, const std::vector<uint32_t>& constants);
void compile_kernel(int device, const std::string& name, const std::vector<uint32_t>& constants);
// The driver's figures of the pipelines created since it was last asked to `keep` that: (label, [(name, value)]).
std::vector<std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>> keep_pipeline_statistics(bool keep);
// Throws Python's exception for a failure, or returns for a kind that has none there; returns the one before.
using FailureRaiser = void (*)(FailureKind kind, const std::string& text);
FailureRaiser set_failure_raiser(FailureRaiser raise);
[[noreturn]] void raise_failure(FailureKind kind, const std::string& text);
std::string unavailable_reason();
int device_count() noexcept;
// The loop guard's (vulkan/spirv_loop_guard.h) findings in every kernel: name, loops, why it does not understand it.
std::vector<std::tuple<std::string, uint32_t, std::string>> loop_guard_of_kernels();
bool device_created(int device) noexcept;
void create_device(int device);
void synchronize(int device);
int validation_message_count();
std::vector<std::string> validation_messages();
void inject_allocation_failures(int count, uint64_t min_bytes);
void inject_device_lost(int device);

}  // namespace aule::runtime
