// What the Python layer shows of devices, kernels and the driver.
#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace aule::runtime {

struct KernelInfo {
  std::string name;
  size_t spirv_bytes;
  bool supported;
};
std::vector<KernelInfo> registered_kernels(int device);
std::vector<std::string> active_pipelines(int device);
// Builds a variant's pipeline without running it: its constants by position, those that are left out as in the shader.
// Bytes of shared memory of a kernel variant with these specialization constants; the others have their defaults.
uint64_t shared_bytes(const std::string& name, const std::vector<uint32_t>& constants);
void compile_kernel(int device, const std::string& name, const std::vector<uint32_t>& constants);
// What the driver tells of the pipelines created since it was last asked to `keep` that: (label, [(name, value)]).
std::vector<std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>> keep_pipeline_statistics(bool keep);
std::string unavailable_reason();
int device_count() noexcept;
// What the loop guard (vulkan/spirv_loop_guard.h) makes of every kernel: name, loops, why it does not understand it.
std::vector<std::tuple<std::string, uint32_t, std::string>> loop_guard_of_kernels();
bool device_created(int device) noexcept;
void create_device(int device);
void synchronize(int device);
int validation_message_count();
std::vector<std::string> validation_messages();
void inject_allocation_failures(int count, uint64_t min_bytes);
void inject_device_lost(int device);

}  // namespace aule::runtime
