#include "runtime/device_info.h"

#include <c10/util/Exception.h>

#include "core/environment.h"
#include "kernels/launch.h"
#include "kernels/pipelines.h"
#include "kernels/registry.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"
#include "vulkan/check.h"
#include "vulkan/device.h"
#include "vulkan/instance.h"
#include "vulkan/pipeline.h"
#include "vulkan/pipeline_statistics.h"
#include "vulkan/spirv_loop_guard.h"

namespace aule::runtime {
namespace {

// An error that surfaces while waiting or recording becomes the exception that Torch turns into Python's.
struct TorchOutOfMemory : c10::OutOfMemoryError, Failure {
  explicit TorchOutOfMemory(const std::string& text)
      : c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, text), Failure{FailureKind::out_of_memory} {}
};
void raise_as_torch(FailureKind kind, const std::string& text) {
  if (kind == FailureKind::out_of_memory) throw TorchOutOfMemory(text);
  TORCH_CHECK_INDEX(kind != FailureKind::index, text);
  TORCH_CHECK_NOT_IMPLEMENTED(kind != FailureKind::missing_feature, text);  // operators fall back to the CPU
}
KernelId kernel_named(const std::string& name) {
  const auto found = kernels::find_kernel(name);
  TORCH_CHECK(found, "no kernel variant is named ", name);
  return *found;
}

[[maybe_unused]] const bool g_raiser = (vulkan::set_raiser(&raise_as_torch), true);

}  // namespace

const DeviceProfile& device_profile(c10::DeviceIndex device) {
  return vulkan::device_profile(device < 0 ? current_device() : device);
}
std::string tuning_file(c10::DeviceIndex device) {
  const auto folder = cache_directory();
  return folder.empty() ? std::string() : (folder / measured_shapes_file_name(device_profile(device))).string();
}

std::vector<KernelInfo> registered_kernels(int device) {
  std::vector<KernelInfo> found;
  for (const KernelId id : kernels::kernel_ids()) {
    const auto k = kernels::find_source(id);
    if (k == nullptr) continue;
    const bool supported = device >= 0 && (k->features & ~feature_bits(vulkan::device_profile(device))) == 0;
    found.push_back({k->name, k->spirv_bytes, supported});
  }
  return found;
}
std::vector<std::string> active_pipelines(int device) {
  if (!vulkan::device_created(device)) return {};
  return kernels::active_pipelines(device);
}
void save_pipelines(int device) {
  if (vulkan::device_created(device)) kernels::save_pipelines(device);
}
std::pair<uint64_t, double> compile_times(int device) {
  if (!vulkan::device_created(device)) return {};
  const auto [pipelines, driver_seconds] = kernels::compile_times(device);
  return {pipelines, driver_seconds};
}
void compile_kernel(int device, const std::string& name, const std::vector<uint32_t>& constants) {
  kernels::compile_pipeline(vulkan::Device::get(device), kernel_named(name), constants);
}
uint64_t shared_bytes(const std::string& name, const std::vector<uint32_t>& constants) {
  return kernels::shared_bytes(kernel_named(name), constants);
}
std::vector<std::pair<std::string, std::vector<std::pair<std::string, uint64_t>>>> keep_pipeline_statistics(bool keep) {
  vulkan::finish_compilations();  // those that were launched belong to it
  return vulkan::keep_pipeline_statistics(keep);
}
std::vector<std::tuple<std::string, uint32_t, std::string>> loop_guard_of_kernels() {
  std::vector<std::tuple<std::string, uint32_t, std::string>> result;
  for (const KernelId id : kernels::kernel_ids()) {
    const auto r = kernels::find_source(id);
    if (r == nullptr) continue;
    auto guarded = vulkan::guard_loops(reinterpret_cast<const uint32_t*>(r->spirv), r->spirv_bytes / 4, 1);
    result.emplace_back(r->name, guarded.loops, guarded.not_understood);
  }
  return result;
}
FailureRaiser set_failure_raiser(FailureRaiser raise) { return vulkan::set_raiser(raise); }
void raise_failure(FailureKind kind, const std::string& text) { vulkan::raise(kind, text); }
std::string unavailable_reason() { return vulkan::unavailable_reason(); }
int device_count() noexcept { return vulkan::device_count(); }
bool device_created(int device) noexcept { return vulkan::device_created(device); }
void create_device(int device) { vulkan::Device::get(device); }
void synchronize(int device) {
  if (vulkan::device_created(device)) stream::synchronize_device(device);
}
int validation_message_count() { return vulkan::validation_message_count(); }
std::vector<std::string> validation_messages() { return vulkan::validation_messages(); }
void inject_allocation_failures(int count, uint64_t min_bytes) { vulkan::inject_allocation_failures(count, min_bytes); }
void inject_device_lost(int device) { vulkan::inject_device_lost(device); }

}  // namespace aule::runtime
