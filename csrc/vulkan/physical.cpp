#include "vulkan/physical.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/environment.h"
#include "vulkan/check.h"
#include "vulkan/features.h"
#include "vulkan/instance.h"
#include "vulkan/loop_probe.h"

namespace aule::vulkan {
namespace {

std::string hex(const uint8_t* bytes, size_t count) {
  static const char* kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Caps::Kind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return Caps::Kind::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return Caps::Kind::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return Caps::Kind::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return Caps::Kind::cpu;
    default: return Caps::Kind::other;
  }
}

// Rules of core/capabilities.def.
struct Found {
  const PhysicalDevice& device;
  const VkPhysicalDeviceVulkan11Properties& v11;
  bool mapped_memory;  // some device-local memory is visible to the host and coherent

  bool subgroup(VkSubgroupFeatureFlags bit) const {
    return (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
           (v11.subgroupSupportedOperations & bit) != 0;
  }
};
bool has_subgroup_basic(const Found& f) { return f.subgroup(VK_SUBGROUP_FEATURE_BASIC_BIT); }
bool has_subgroup_arithmetic(const Found& f) { return f.subgroup(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT); }
// With votes, which kernels that shuffle use too.
bool has_subgroup_shuffle(const Found& f) {
  return f.subgroup(VK_SUBGROUP_FEATURE_SHUFFLE_BIT) && f.subgroup(VK_SUBGROUP_FEATURE_VOTE_BIT);
}
bool has_subgroup_ballot(const Found& f) { return f.subgroup(VK_SUBGROUP_FEATURE_BALLOT_BIT); }
bool has_sparse_binding(const Found& f) { return f.device.sparse_memory; }
bool has_unified_memory(const Found& f) {
  const Caps& caps = f.device.profile;
  return f.mapped_memory && (caps.kind == Caps::Kind::integrated || caps.is_software());
}

// Returns whether some device-local memory is mapped.
bool read_memory(const Functions& vk, PhysicalDevice& d) {
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, nullptr, {}};
  vk.vkGetPhysicalDeviceMemoryProperties2(d.handle, &memory);
  const auto& p = memory.memoryProperties;
  for (uint32_t i = 0; i < p.memoryHeapCount; ++i)
    if (p.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      d.profile.device_heap_bytes = std::max(d.profile.device_heap_bytes, p.memoryHeaps[i].size);
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  bool mapped = false;
  for (uint32_t i = 0; i < p.memoryTypeCount; ++i) {
    if ((p.memoryTypes[i].propertyFlags & kMapped) != kMapped) continue;
    mapped = true;
    d.profile.mapped_heap_bytes = std::max(d.profile.mapped_heap_bytes, p.memoryHeaps[p.memoryTypes[i].heapIndex].size);
  }
  return mapped;
}

constexpr const char* kComputeQueue = "a compute queue";

void read_queues(const Functions& vk, PhysicalDevice& d) {
  uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties2(d.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties2> families(count, {VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2, nullptr, {}});
  vk.vkGetPhysicalDeviceQueueFamilyProperties2(d.handle, &count, families.data());
  // Streams map onto the queues of one family with compute: of the one with the most queues, but rather of one without
  // graphics that has several. Kernels of its queues run beside each other. On an H200 (driver 580.159) queues with
  // graphics take turns: beside long kernels a small one then takes 1.4 ms, without graphics 22 us.
  constexpr uint32_t kSeveral = 2;
  const auto rank = [&](uint32_t i) {
    const auto& f = families[i].queueFamilyProperties;
    const bool graphics = (f.queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
    return std::pair(!graphics && f.queueCount >= kSeveral, f.queueCount);
  };
  for (uint32_t i = 0; i < count; ++i) {
    const auto& f = families[i].queueFamilyProperties;
    if (!(f.queueFlags & VK_QUEUE_COMPUTE_BIT) || (d.queue_count != 0 && rank(i) <= rank(d.queue_family))) continue;
    d.queue_family = i;
    d.queue_count = f.queueCount;
    d.timestamp_bits = f.timestampValidBits;
    d.sparse_queue = (f.queueFlags & VK_QUEUE_SPARSE_BINDING_BIT) != 0;
  }
  if (environment().disabled.transfer_queue) return;
  // Families for video and the like copy, too, on engines of their own.
  constexpr VkQueueFlags kCopies = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  for (uint32_t i = 0; i < count; ++i) {
    const auto& f = families[i].queueFamilyProperties;
    const bool copies = (f.queueFlags & VK_QUEUE_TRANSFER_BIT) != 0 && (f.queueFlags & ~kCopies) == 0;
    if (!copies || f.queueCount <= d.transfer_count) continue;
    d.transfer_family = i;
    d.transfer_count = f.queueCount;
    d.transfer_timestamp_bits = f.timestampValidBits;
  }
}

PhysicalDevice inspect(const Instance& instance, VkPhysicalDevice handle) {
  const Functions& vk = instance.vk;
  PhysicalDevice d;
  d.handle = handle;
  Caps caps;

  uint32_t count = 0;
  vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data());
  for (const auto& e : extensions) d.extensions.emplace_back(e.extensionName);

  VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
  sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
  VkPhysicalDeviceMaintenance4Properties maintenance4{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
                                                      &sizes, 0};
  VkPhysicalDeviceVulkan12Properties v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  v12.pNext = &maintenance4;
  VkPhysicalDeviceVulkan11Properties v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  v11.pNext = &v12;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &v11, {}};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV builtins{};
  builtins.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
  VkPhysicalDeviceShaderCorePropertiesAMD cores{};
  cores.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD;
  if (d.has_extension(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    builtins.pNext = properties.pNext;
    properties.pNext = &builtins;
  }
  if (d.has_extension(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
    cores.pNext = properties.pNext;
    properties.pNext = &cores;
  }
  vk.vkGetPhysicalDeviceProperties2(handle, &properties);
  const uint64_t amd =
      uint64_t{cores.shaderEngineCount} * cores.shaderArraysPerEngineCount * cores.computeUnitsPerShaderArray;
  // Grids and splits are multiples of the count: one that no GPU has is a driver's fault, and as good as none.
  constexpr uint64_t kMostMultiprocessors = 4096;
  uint32_t multiprocessors = 0;
  for (const uint64_t count : {uint64_t{builtins.shaderSMCount}, amd}) {
    if (count != 0 && count <= kMostMultiprocessors) multiprocessors = static_cast<uint32_t>(count);
  }
  const auto& p = properties.properties;
  caps.name = p.deviceName;
  caps.driver_name = v12.driverName;
  caps.driver_info = v12.driverInfo;
  caps.uuid = hex(v11.deviceUUID, VK_UUID_SIZE);
  caps.vendor_id = p.vendorID;
  caps.device_id = p.deviceID;
  caps.driver_version = p.driverVersion;
  caps.api_version = p.apiVersion;
  caps.kind = kind_of(p.deviceType);
  d.software = caps.is_software();
  set_loop_limit(caps, d.software ? kAssumedLoopLimit : 0);
  caps.subgroup_size = v11.subgroupSize;
  caps.min_subgroup_size = sizes.minSubgroupSize != 0 ? sizes.minSubgroupSize : v11.subgroupSize;
  caps.max_subgroup_size = sizes.maxSubgroupSize != 0 ? sizes.maxSubgroupSize : v11.subgroupSize;
  caps.shared_bytes = p.limits.maxComputeSharedMemorySize;
  caps.max_push_constant_bytes = p.limits.maxPushConstantsSize;
  caps.max_workgroup_invocations = p.limits.maxComputeWorkGroupInvocations;
  std::copy_n(p.limits.maxComputeWorkGroupSize, 3, caps.max_workgroup_size);
  std::copy_n(p.limits.maxComputeWorkGroupCount, 3, caps.max_group_count);
  caps.max_allocation_bytes = v11.maxMemoryAllocationSize;
  caps.max_buffer_bytes = maintenance4.maxBufferSize;
  caps.timestamp_period_ns = p.limits.timestampPeriod;
  d.profile = make_profile(std::move(caps), multiprocessors);

  read_queues(vk, d);
  const bool mapped = read_memory(vk, d);
  if (p.apiVersion < VK_API_VERSION_1_3) {
    d.missing = "Vulkan 1.3 (the driver offers " + std::to_string(VK_API_VERSION_MAJOR(p.apiVersion)) + "." +
                std::to_string(VK_API_VERSION_MINOR(p.apiVersion)) + ")";
    return d;
  }
  d.missing = read_features(instance, d);
  const Found found{d, v11, mapped};
#define AULE_RULE(name, rule, lack) d.profile.name = rule(found);
#include "core/capabilities.def"
  d.profile.architecture = architecture_of(d.profile);  // which cooperative matrices tell of, too
  if (d.queue_count == 0) d.missing += d.missing.empty() ? kComputeQueue : std::string(", ") + kComputeQueue;
  apply_disable_switches(d.profile);
  d.refused_limits = apply_limits(environment().limited, d.profile);
  return d;
}

// TORCH_AULE_VISIBLE_DEVICES: index | part of the name | start of the UUID, in the order wanted; naming one twice gives
// two.
std::vector<PhysicalDevice> select(const std::vector<PhysicalDevice>& usable, const std::string& wanted,
                                   std::string& reason) {
  std::vector<PhysicalDevice> chosen;
  std::stringstream list(wanted);
  for (std::string item; std::getline(list, item, ',');) {
    item.erase(0, item.find_first_not_of(" \t"));
    item.erase(item.find_last_not_of(" \t") + 1);
    if (item.empty()) continue;
    const bool number =
        std::all_of(item.begin(), item.end(), [](unsigned char c) { return std::isdigit(c); }) && item.size() < 4;
    bool found = false;
    for (size_t i = 0; i < usable.size() && !found; ++i) {
      const Caps& caps = usable[i].profile;
      found = number ? std::stoul(item) == i
                     : lower(caps.name).find(lower(item)) != std::string::npos || caps.uuid.rfind(lower(item), 0) == 0;
      if (found) chosen.push_back(usable[i]);
    }
    if (!found) reason += "TORCH_AULE_VISIBLE_DEVICES names '" + item + "', which fits no device; ";
  }
  return chosen;
}

// A refused device is told with its driver, which is what a user can change.
std::string with_driver(const Caps& caps) {
  if (caps.driver_name.empty()) return caps.name;
  return caps.name + " by " + caps.driver_name + (caps.driver_info.empty() ? "" : " " + caps.driver_info);
}

Enumeration enumerate() {
  Enumeration result;
  try {
    Instance& inst = instance();
    uint32_t count = 0;
    VkResult status = inst.vk.vkEnumeratePhysicalDevices(inst.handle, &count, nullptr);
    if (status < 0 || count == 0) {
      result.reason = "No GPU devices found (count == 0): the Vulkan loader is there, but no driver offers a device";
      return result;
    }
    std::vector<VkPhysicalDevice> handles(count);
    VK_CHECK(inst.vk.vkEnumeratePhysicalDevices(inst.handle, &count, handles.data()));
    std::vector<PhysicalDevice> usable;
    result.lacks_compute_queue = true;
    bool lacking = false;
    for (VkPhysicalDevice handle : handles) {
      PhysicalDevice d = inspect(inst, handle);
      result.lacks_compute_queue &= d.missing == kComputeQueue;
      if (d.missing.empty() && d.refused_limits.empty()) {
        usable.push_back(std::move(d));
        continue;
      }
      lacking |= !d.missing.empty();
      if (!d.missing.empty()) result.reason += with_driver(d.profile) + " lacks " + d.missing + "; ";
      if (!d.refused_limits.empty())
        result.reason += "TORCH_AULE_LIMITS does not fit " + d.profile.name + ": " + d.refused_limits + "; ";
    }
    auto rank = [](const PhysicalDevice& d) {
      switch (d.profile.kind) {
        case Caps::Kind::discrete: return 0;
        case Caps::Kind::integrated: return 1;
        case Caps::Kind::virtual_gpu: return 2;
        case Caps::Kind::other: return 3;
        default: return 4;
      }
    };
    std::stable_sort(usable.begin(), usable.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    if (const auto& wanted = environment().visible_devices) {
      result.visible = select(usable, *wanted, result.reason);
      if (result.visible.empty() && result.reason.empty()) result.reason = "TORCH_AULE_VISIBLE_DEVICES is empty";
    } else {
      // Software devices show only where nothing else does.
      const bool real = !usable.empty() && !usable.front().profile.is_software();
      for (auto& d : usable)
        if (!real || !d.profile.is_software()) result.visible.push_back(std::move(d));
    }
    if (usable.empty() && lacking)
      result.reason +=
          "every device needs what is named here: update its driver, or use another device, such as Mesa's lavapipe, "
          "which computes on the CPU";
  } catch (const std::exception& error) {
    result.visible.clear();
    result.reason = error.what();
  }
  return result;
}

}  // namespace

bool PhysicalDevice::has_extension(const char* name) const {
  return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

void raise_unavailable(const std::string& text) {
  const Enumeration& found = enumeration();
  raise(found.visible.empty() && found.lacks_compute_queue ? FailureKind::no_compute_queue : FailureKind::vulkan_init,
        text + found.reason);
}

const Enumeration& enumeration() {
  static const auto* result = new Enumeration(enumerate());
  return *result;
}

}  // namespace aule::vulkan
