#include "vulkan/loader.h"

#include <mutex>
#include <string>
#include <vector>

#include "core/environment.h"
#include "core/library.h"
#include "vulkan/check.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace aule::vulkan {
namespace {

void* open_library(const char* name) {
#ifdef _WIN32
  return reinterpret_cast<void*>(LoadLibraryA(name));
#else
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
}
void* symbol(void* library, const char* name) {
#ifdef _WIN32
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
#else
  return dlsym(library, name);
#endif
}

std::vector<std::string> candidates() {
  if (const auto& named = environment().vulkan_library; named.has_value() && !named->empty()) return {*named};
#if defined(_WIN32)
  return {"vulkan-1.dll"};
#elif defined(__APPLE__)
  // The wheel brings MoltenVK, which serves where no SDK with a loader is installed.
  return {"libvulkan.dylib", "libvulkan.1.dylib", library_folder() + "lib/libMoltenVK.dylib", "libMoltenVK.dylib"};
#else
  return {"libvulkan.so.1", "libvulkan.so"};
#endif
}

}  // namespace

Functions& loader() {
  static Functions table;
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] {
    std::string tried;
    for (const std::string& name : candidates()) {
      void* library = open_library(name.c_str());
      tried += (tried.empty() ? "" : ", ") + name;
      if (library == nullptr) continue;
      table.vkGetInstanceProcAddr =
          reinterpret_cast<PFN_vkGetInstanceProcAddr>(symbol(library, "vkGetInstanceProcAddr"));
      if (table.vkGetInstanceProcAddr != nullptr) break;
    }
    if (table.vkGetInstanceProcAddr == nullptr) {
      failure = "Vulkan driver not detected: no Vulkan loader found (tried " + tried +
                "). Install your GPU's driver; on Debian and Ubuntu the loader is the package libvulkan1, and "
                "mesa-vulkan-drivers adds AMD, Intel and software devices.";
      return;
    }
#define AULE_LOAD(name) table.name = reinterpret_cast<PFN_##name>(table.vkGetInstanceProcAddr(nullptr, #name));
    AULE_VK_GLOBAL(AULE_LOAD)
#undef AULE_LOAD
  });
  if (!failure.empty()) throw NoDevice(failure);
  return table;
}

void load_instance_functions(Functions& table, VkInstance instance) {
#define AULE_LOAD(name) table.name = reinterpret_cast<PFN_##name>(table.vkGetInstanceProcAddr(instance, #name));
  AULE_VK_INSTANCE(AULE_LOAD)
#undef AULE_LOAD
}

void load_device_functions(const Functions& table, VkDevice device, DeviceFunctions& out) {
#define AULE_LOAD(name) out.name = reinterpret_cast<PFN_##name>(table.vkGetDeviceProcAddr(device, #name));
  AULE_VK_DEVICE(AULE_LOAD)
#undef AULE_LOAD
}

}  // namespace aule::vulkan
