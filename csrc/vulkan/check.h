// Typed errors of the device layer, and VK_CHECK.
#pragma once
#include <stdexcept>
#include <string>

#include "core/failure.h"

namespace aule::vulkan {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <FailureKind failure_kind>
struct ErrorOf : Error, Failure {
  explicit ErrorOf(const std::string& text) : Error(text), Failure{failure_kind} {}
};
using NoDevice = ErrorOf<FailureKind::vulkan_init>;  // no loader, or no usable device (the text says why, per device)
using NoComputeQueue = ErrorOf<FailureKind::no_compute_queue>;
using OutOfMemory = ErrorOf<FailureKind::out_of_memory>;  // VK_ERROR_OUT_OF_{DEVICE,HOST}_MEMORY, or past a limit
using ShaderNotCompiled = ErrorOf<FailureKind::shader_compile>;  // by the driver
using DeviceLost = ErrorOf<FailureKind::device_lost>;            // sticky; the text names the kernels in flight
using IndexError = ErrorOf<FailureKind::index>;                  // an index a kernel refused
using MissingFeature = ErrorOf<FailureKind::missing_feature>;    // that a kernel needs

// Throws what the layer above, which knows Torch or Python, makes of a failure; by default the type above.
[[noreturn]] void raise(FailureKind kind, const std::string& text);
// `raise` throws, or returns for a kind that it leaves as it is. Returns the one before.
using Raiser = void (*)(FailureKind kind, const std::string& text);
Raiser set_raiser(Raiser raise);

// Throws the Error subclass that fits `result`; `call` is the source text of the Vulkan call.
[[noreturn]] void throw_vulkan(int result, const char* call, const char* file, int line);
const char* result_name(int result);

}  // namespace aule::vulkan

#define VK_CHECK(call)                                                                            \
  do {                                                                                            \
    VkResult aule_vk_result_ = (call);                                                            \
    if (aule_vk_result_ < 0)                                                                      \
      ::aule::vulkan::throw_vulkan(static_cast<int>(aule_vk_result_), #call, __FILE__, __LINE__); \
  } while (0)
