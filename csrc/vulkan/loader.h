// The Vulkan loader, opened at run time, and its functions as one table.
//
// The list is in functions.h. A function that the loader or driver lacks is null. Functions of an extension are called
// only if the device has its feature.
#pragma once
#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include "vulkan/functions.h"

#ifdef __GNUC__  // `VkSomething info{VK_STRUCTURE_TYPE_SOMETHING};` leaves the rest zero on purpose, everywhere
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

namespace aule::vulkan {

struct Functions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define AULE_DECLARE(name) PFN_##name name = nullptr;
  AULE_VK_GLOBAL(AULE_DECLARE)
  AULE_VK_INSTANCE(AULE_DECLARE)
#undef AULE_DECLARE
};

// Device functions, fetched per device: no dispatch through the loader on the hot path.
struct DeviceFunctions {
#define AULE_DECLARE(name) PFN_##name name = nullptr;
  AULE_VK_DEVICE(AULE_DECLARE)
#undef AULE_DECLARE
};

// Opens the loader once and fills the global functions; throws NoDevice with what was tried.
// TORCH_AULE_VULKAN_LIBRARY names another library.
Functions& loader();
void load_instance_functions(Functions& table, VkInstance instance);
void load_device_functions(const Functions& table, VkDevice device, DeviceFunctions& out);

}  // namespace aule::vulkan
