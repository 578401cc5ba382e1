#include "vulkan/check.h"

#include <atomic>

#include "vulkan/loader.h"

namespace aule::vulkan {

namespace {
std::atomic<Raiser> raiser{nullptr};
}

Raiser set_raiser(Raiser raise) { return raiser.exchange(raise); }

void raise(FailureKind kind, const std::string& text) {
  if (const Raiser raise_above = raiser.load()) raise_above(kind, text);
  switch (kind) {
    case FailureKind::vulkan_init: throw NoDevice(text);
    case FailureKind::no_compute_queue: throw NoComputeQueue(text);
    case FailureKind::out_of_memory: throw OutOfMemory(text);
    case FailureKind::shader_compile: throw ShaderNotCompiled(text);
    case FailureKind::device_lost: throw DeviceLost(text);
    case FailureKind::index: throw IndexError(text);
    case FailureKind::missing_feature: break;
  }
  throw MissingFeature(text);
}

// clang-format off: a list
const char* result_name(int result) {
  switch (static_cast<VkResult>(result)) {
#define NAME(x) case x: return #x;
    NAME(VK_SUCCESS) NAME(VK_NOT_READY) NAME(VK_TIMEOUT) NAME(VK_INCOMPLETE) NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY) NAME(VK_ERROR_INITIALIZATION_FAILED) NAME(VK_ERROR_DEVICE_LOST)
    NAME(VK_ERROR_MEMORY_MAP_FAILED) NAME(VK_ERROR_LAYER_NOT_PRESENT) NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    NAME(VK_ERROR_FEATURE_NOT_PRESENT) NAME(VK_ERROR_INCOMPATIBLE_DRIVER) NAME(VK_ERROR_TOO_MANY_OBJECTS)
    NAME(VK_ERROR_FRAGMENTED_POOL) NAME(VK_ERROR_UNKNOWN) NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE) NAME(VK_ERROR_FRAGMENTATION)
    NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS) NAME(VK_PIPELINE_COMPILE_REQUIRED)
#undef NAME
    default: return "VkResult";
  }
}
// clang-format on

void throw_vulkan(int result, const char* call, const char* file, int line) {
  std::string path(file);
  const std::string text = std::string(call) + " failed: " + result_name(result) + " (" + std::to_string(result) +
                           ") at " + path.substr(path.find_last_of("/\\") + 1) + ":" + std::to_string(line);
  switch (static_cast<VkResult>(result)) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: throw OutOfMemory(text);
    case VK_ERROR_DEVICE_LOST: raise(FailureKind::device_lost, text);
    case VK_ERROR_INITIALIZATION_FAILED: raise(FailureKind::vulkan_init, text);
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT: raise(FailureKind::missing_feature, text);
    default: throw Error(text);
  }
}

}  // namespace aule::vulkan
