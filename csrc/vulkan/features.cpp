#include "vulkan/features.h"

#include <algorithm>
#include <string_view>

#include "core/environment.h"
#include "core/integer.h"
#include "vulkan/instance.h"

namespace aule::vulkan {
namespace {

// The member of a feature struct that a row names, or null where the chain has no such struct.
#define AULE_FIND(chain, block, type) (chain).find<VkPhysicalDevice##block>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type)

bool offers(const PhysicalDevice& device, std::string_view extension) {
  return extension.empty() || device.has_extension(extension.data());
}

void read_coopmat_shapes(const Instance& instance, VkPhysicalDevice device, Caps& caps) {
  if (!caps.cooperative_matrix || instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR == nullptr) return;
  uint32_t count = 0;
  instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device, &count, nullptr);
  std::vector<VkCooperativeMatrixPropertiesKHR> shapes(
      count, {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR, nullptr, 0, 0, 0, {}, {}, {}, {}, VK_FALSE, {}});
  instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device, &count, shapes.data());
  for (const auto& s : shapes) {
    if (s.scope != VK_SCOPE_SUBGROUP_KHR) continue;
    caps.coopmat_shapes.push_back({s.MSize, s.NSize, s.KSize, static_cast<uint8_t>(s.AType),
                                   static_cast<uint8_t>(s.BType), static_cast<uint8_t>(s.CType),
                                   static_cast<uint8_t>(s.ResultType)});
  }
}

// Features that need others.
void drop_dependents(Caps& caps) {
  if (caps.cooperative_matrix) return;
  caps.cooperative_matrix2 = false;
  caps.coopmat_shapes.clear();
}

}  // namespace

void FeatureChain::add(VkStructureType type, size_t bytes) {
  if (find<VkBaseOutStructure>(type) != nullptr) return;
  auto block = std::make_unique<uint64_t[]>(ceil_div(bytes, 8));
  auto* head = reinterpret_cast<VkBaseOutStructure*>(block.get());
  head->sType = type;
  if (!blocks_.empty()) reinterpret_cast<VkBaseOutStructure*>(blocks_.back().get())->pNext = head;
  blocks_.push_back(std::move(block));
}

FeatureChain::FeatureChain(const PhysicalDevice& device) {
  add(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, sizeof(VkPhysicalDeviceFeatures2));
#define AULE_BASELINE(block, type, member) \
  add(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, sizeof(VkPhysicalDevice##block));
#define AULE_FEATURE(name, block, type, member, extension, lack) \
  if (offers(device, extension)) add(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, sizeof(VkPhysicalDevice##block));
#include "core/capabilities.def"
}

std::string read_features(const Instance& instance, PhysicalDevice& d) {
  FeatureChain chain(d);
  instance.vk.vkGetPhysicalDeviceFeatures2(d.handle, chain.head());
  std::string missing;
  const auto require = [&](bool has, std::string_view member) {
    if (has) return;
    const size_t dot = member.find_last_of('.');
    missing += (missing.empty() ? "" : ", ") + std::string(member.substr(dot == member.npos ? 0 : dot + 1));
  };
  Caps& caps = d.profile;
#define AULE_BASELINE(block, type, member) require(AULE_FIND(chain, block, type)->member, #member);
#define AULE_FEATURE(name, block, type, member, extension, lack) \
  if (const auto* found = AULE_FIND(chain, block, type)) caps.name = found->member;
#define AULE_EXTENSION(name, extension, lack) caps.name = d.has_extension(extension);
#include "core/capabilities.def"
  const auto& core = chain.head()->features;
  d.sparse_memory = core.sparseBinding && core.sparseResidencyBuffer && d.sparse_queue;
  drop_dependents(caps);
  read_coopmat_shapes(instance, d.handle, caps);
  return missing;
}

std::vector<const char*> enable_features(const PhysicalDevice& d, FeatureChain& chain) {
  const Caps& caps = d.profile;
#define AULE_BASELINE(block, type, member) AULE_FIND(chain, block, type)->member = VK_TRUE;
#define AULE_FEATURE(name, block, type, member, extension, lack) \
  if (auto* found = AULE_FIND(chain, block, type)) found->member = caps.name;
#define AULE_ENABLES(name, block, type, with) \
  if (auto* found = AULE_FIND(chain, block, type)) found->with = caps.name;
#include "core/capabilities.def"
  AULE_FIND(chain, Vulkan12Features, VULKAN_1_2_FEATURES)->vulkanMemoryModelDeviceScope = VK_TRUE;
  if (auto* found = AULE_FIND(chain, ShaderBfloat16FeaturesKHR, SHADER_BFLOAT16_FEATURES_KHR))
    found->shaderBFloat16CooperativeMatrix = caps.bfloat16 && caps.cooperative_matrix;

  std::vector<const char*> extensions;
  const auto use = [&](bool wanted, const char* name) {
    const bool listed =
        std::any_of(extensions.begin(), extensions.end(), [&](const char* e) { return std::string_view(e) == name; });
    if (wanted && *name != '\0' && !listed && d.has_extension(name)) extensions.push_back(name);
  };
#define AULE_FEATURE(name, block, type, member, extension, lack) use(true, extension);  // its struct is in the chain
#define AULE_EXTENSION(name, extension, lack) use(caps.name, extension);
#include "core/capabilities.def"
  use(true, "VK_KHR_portability_subset");  // Vulkan requires this if the device offers it
  return extensions;
}

void apply_disable_switches(Caps& caps) {
  const Environment& e = environment();
#define AULE_CAPABILITY(name, lack) caps.name = caps.name && !e.disabled.name;
#include "core/capabilities.def"
  if (e.disabled.timestamps) caps.timestamp_period_ns = 0;
  // A software device then takes the kernels for GPUs.
  if (e.disabled.cpu_kernels && caps.is_software()) caps.kind = Caps::Kind::other;
  drop_dependents(caps);
}

}  // namespace aule::vulkan
