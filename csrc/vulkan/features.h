// Which features a device has and which of them we turn on: one list serves both the query and vkCreateDevice.
#pragma once
#include <string>
#include <vector>

#include "vulkan/physical.h"

namespace aule::vulkan {

// The pNext chain of every feature struct we know; the same layout is filled by the query and then handed,
// reduced to what we use, to vkCreateDevice.
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
// Sets in `chain` what `caps` says is on, and lists the extensions to enable.
std::vector<const char*> enable_features(const PhysicalDevice& device, FeatureChain& chain);
// AULE_DISABLE_<FIELD>=1 turns an optional feature off, so that its fallback can be tested anywhere.
void apply_disable_switches(Caps& caps);

}  // namespace aule::vulkan
