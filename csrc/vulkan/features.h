// Features that a device has, and those of them that we turn on. The rows of core/capabilities.def serve both.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vulkan/physical.h"

namespace aule::vulkan {

// The pNext chain of the feature structs that the rows name. It is filled by the query, or handed to vkCreateDevice.
class FeatureChain {
 public:
  explicit FeatureChain(const PhysicalDevice& device);  // structs whose extension it has; all false
  VkPhysicalDeviceFeatures2* head() { return reinterpret_cast<VkPhysicalDeviceFeatures2*>(blocks_.front().get()); }
  // The struct of this type, or null where it is not in the chain.
  template <class Struct>
  Struct* find(VkStructureType type) {
    for (const auto& block : blocks_) {
      if (reinterpret_cast<const VkBaseOutStructure*>(block.get())->sType == type)
        return reinterpret_cast<Struct*>(block.get());
    }
    return nullptr;
  }

 private:
  void add(VkStructureType type, size_t bytes);
  std::vector<std::unique_ptr<uint64_t[]>> blocks_;
};

// Fills the capabilities of device.profile that are rows of features and extensions, and the shapes of cooperative
// matrices; returns the baseline features that are missing, as text.
std::string read_features(const Instance& instance, PhysicalDevice& device);
// Sets in `chain` what the profile says is on, and lists the extensions to enable.
std::vector<const char*> enable_features(const PhysicalDevice& device, FeatureChain& chain);
// TORCH_AULE_DISABLE=<name> turns a capability off, so that its fallback can be tested anywhere.
void apply_disable_switches(Caps& caps);

}  // namespace aule::vulkan
