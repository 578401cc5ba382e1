#include "vulkan/instance.h"

#if defined(__linux__) && defined(__GLIBC__)
#include <pthread.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>

#include "core/environment.h"
#include "vulkan/check.h"

namespace aule::vulkan {
namespace {

std::atomic<int> g_messages{0};
std::mutex g_texts_mutex;
std::vector<std::string>& texts() {
  static auto* t = new std::vector<std::string>;
  return *t;
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  // Loaders of Vulkan 1.3.239 report broken ICD manifests through the same callback. Only the layer's messages count.
  if (data->pMessageIdName != nullptr && std::strcmp(data->pMessageIdName, "Loader Message") == 0) return VK_FALSE;
  ++g_messages;
  std::fprintf(stderr, "[vulkan validation] %s\n", data->pMessage);
  std::lock_guard lock(g_texts_mutex);
  if (texts().size() < 64) texts().push_back(data->pMessage);
  return VK_FALSE;
}

bool has_layer(const Functions& vk, const char* name) {
  uint32_t count = 0;
  vk.vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vk.vkEnumerateInstanceLayerProperties(&count, layers.data());
  for (const auto& layer : layers)
    if (std::strcmp(layer.layerName, name) == 0) return true;
  return false;
}
bool has_extension(const Functions& vk, const char* layer, const char* name) {
  uint32_t count = 0;
  vk.vkEnumerateInstanceExtensionProperties(layer, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.vkEnumerateInstanceExtensionProperties(layer, &count, extensions.data());
  for (const auto& extension : extensions)
    if (std::strcmp(extension.extensionName, name) == 0) return true;
  return false;
}

#if defined(__linux__) && defined(__GLIBC__)
void leave(int status, void*) {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  _exit(status);
}

// A forked child shares the driver's open files. If it ran the driver's destructors at its exit, they would free what
// the parent has on the device: NVIDIA's driver then gives the parent wrong results without an error. Handlers run in
// the reverse order of their registration, so one that the child registers first of all runs before each of the
// parent's, and ends the process there. Handlers that the child registers later have run by then.
void keep_drivers_from_ending_in_forks() {
  pthread_atfork(nullptr, nullptr, [] { on_exit(leave, nullptr); });
}
#else
void keep_drivers_from_ending_in_forks() {}  // exit handlers learn no status elsewhere; Windows has no forks
#endif

Instance* create() {
  auto* made = new Instance;
  keep_drivers_from_ending_in_forks();
  made->vk = loader();
  auto& vk = made->vk;
  uint32_t version = VK_API_VERSION_1_0;
  if (vk.vkEnumerateInstanceVersion != nullptr) vk.vkEnumerateInstanceVersion(&version);
  if (version < VK_API_VERSION_1_3)
    throw Error("Vulkan loader too old: version " + std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                std::to_string(VK_API_VERSION_MINOR(version)) + ", torch_aule needs 1.3");

  constexpr const char* kValidation = "VK_LAYER_KHRONOS_validation";
  const bool validate = environment().validation;
  std::vector<const char*> layers, extensions;
  if (validate) {
    if (!has_layer(vk, kValidation))
      throw Error(
          "TORCH_AULE_VALIDATION=1, but VK_LAYER_KHRONOS_validation is not installed (Debian: "
          "vulkan-validationlayers)");
    layers.push_back(kValidation);
  }
  if (has_extension(vk, nullptr, VK_EXT_DEBUG_UTILS_EXTENSION_NAME)) {
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    made->debug_labels = validate || environment().labels;
  }
  const VkValidationFeatureEnableEXT enables[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, enables, 0, nullptr};
  const bool features_known = validate && has_extension(vk, kValidation, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  if (features_known) extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  VkInstanceCreateFlags flags = 0;
  if (has_extension(vk, nullptr, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);  // MoltenVK is listed only on request
    flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }

  const VkApplicationInfo app{
      VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "torch_aule", 1, "torch_aule", 1, VK_API_VERSION_1_3};
  const VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  features_known ? &features : nullptr,
                                  flags,
                                  &app,
                                  static_cast<uint32_t>(layers.size()),
                                  layers.data(),
                                  static_cast<uint32_t>(extensions.size()),
                                  extensions.data()};
  const VkResult created = vk.vkCreateInstance(&info, nullptr, &made->handle);
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER)
    throw NoDevice(
        "the Vulkan loader found no driver that works (VK_ERROR_INCOMPATIBLE_DRIVER): install the GPU vendor's, or "
        "mesa-vulkan-drivers, or point VK_DRIVER_FILES at the driver's .json file");
  if (created < 0) throw_vulkan(created, "vkCreateInstance", __FILE__, __LINE__);
  load_instance_functions(vk, made->handle);
  if (validate && vk.vkCreateDebugUtilsMessengerEXT != nullptr) {
    const VkDebugUtilsMessengerCreateInfoEXT messenger{
        VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        nullptr,
        0,
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        on_message,
        nullptr};
    VkDebugUtilsMessengerEXT handle;
    VK_CHECK(vk.vkCreateDebugUtilsMessengerEXT(made->handle, &messenger, nullptr, &handle));
  }
  return made;
}

}  // namespace

Instance& instance() {
  static std::mutex mutex;
  static Instance* made = nullptr;  // never destroyed: tensors may outlive this library's destructors
  std::lock_guard lock(mutex);
  if (made == nullptr) made = create();
  return *made;
}

int validation_message_count() { return g_messages.load(); }
std::vector<std::string> validation_messages() {
  std::lock_guard lock(g_texts_mutex);
  return texts();
}

}  // namespace aule::vulkan
