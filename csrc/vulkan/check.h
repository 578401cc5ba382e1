// Typed errors of the device layer, and VK_CHECK.
#pragma once
#include <stdexcept>
#include <string>

namespace aule::vulkan {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct LoaderMissing : Error {
  using Error::Error;
};  // no libvulkan
struct NoDevice : Error {
  using Error::Error;
};  // loader, but no usable device (the text says why, per device)
struct OutOfMemory : Error {
  using Error::Error;
};  // VK_ERROR_OUT_OF_{DEVICE,HOST}_MEMORY, or past a limit
struct DeviceLost : Error {
  using Error::Error;
};  // sticky; the text names the kernels in flight
struct MissingFeature : Error {
  using Error::Error;
};
struct IndexError : Error {
  using Error::Error;
};  // an index a kernel refused

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
