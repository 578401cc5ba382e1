// The features of a device, and those that we turn on. One list serves both the query and vkCreateDevice.
#pragma once
#include <string>
#include <vector>

#include "vulkan/physical.h"

namespace aule::vulkan {

// The pNext chain of all feature structs that we use. The query fills it. vkCreateDevice gets the same chain, reduced
// to the features that we turn on.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 base{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceVulkan13Features v13{};
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative_matrix{};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV cooperative_matrix2{};
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{};
  VkPhysicalDeviceFaultFeaturesEXT fault{};
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable_properties{};
  FeatureChain() = default;
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;
  // Links the structs whose extension `device` has.
  void link(const PhysicalDevice& device);
};

// Fills the optional fields of device.caps; returns the baseline features that are missing, as text.
std::string read_features(const Instance& instance, PhysicalDevice& device);
// Sets the features of `caps` in `chain`, and returns the extensions to enable.
std::vector<const char*> enable_features(const PhysicalDevice& device, FeatureChain& chain);
// AULE_DISABLE_<FIELD>=1 turns an optional feature off, so that its fallback can be tested anywhere.
void apply_disable_switches(Caps& caps);

}  // namespace aule::vulkan
