#include "vulkan/device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>

#include "core/environment.h"
#include "core/per_device.h"
#include "core/queues.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/features.h"
#include "vulkan/instance.h"
#include "vulkan/loop_guard.h"
#include "vulkan/loop_probe.h"
#include "vulkan/physical.h"
#include "vulkan/pipeline.h"

namespace aule::vulkan {
namespace {

std::array<std::atomic<Device*>, kMaxDevices> g_devices{};  // live until process exit
std::mutex g_create_mutex;

std::unique_ptr<DeviceImpl> create(int index) {
  const PhysicalDevice& physical = enumeration().visible.at(static_cast<size_t>(index));
  auto impl = std::make_unique<DeviceImpl>();
  Instance& inst = instance();
  impl->index = index;
  impl->profile = physical.profile;
  if (const auto folder = cache_directory(); !folder.empty())
    impl->profile.measured_shapes =
        read_measured_shapes((folder / measured_shapes_file_name(physical.profile)).string());
  impl->physical = physical.handle;
  impl->instance_vk = &inst.vk;
  impl->labels = inst.debug_labels;
  impl->queue_family = physical.queue_family;
  impl->timestamp_bits = physical.timestamp_bits;
  impl->transfer_family = physical.transfer_family;
  impl->transfer_timestamp_bits = physical.transfer_timestamp_bits;
  impl->sparse_queue = physical.sparse_queue;

  FeatureChain features(physical);
  const std::vector<const char*> extensions = enable_features(physical, features);
  const uint32_t queue_count = std::min(physical.queue_count, kMaxQueues);
  std::vector<float> priorities(queue_count, kNormalPriority);
  std::fill(priorities.end() - high_priority_queues(queue_count), priorities.end(), kHighPriority);
  const uint32_t transfer_count = std::min(physical.transfer_count, kMaxTransferQueues);
  constexpr std::array<float, kMaxTransferQueues> kTransferPriorities{kHighPriority, kHighPriority};
  const VkDeviceQueueCreateInfo queues[] = {
      {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, physical.queue_family, queue_count, priorities.data()},
      {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, physical.transfer_family, transfer_count,
       kTransferPriorities.data()}};
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = features.head();
  info.queueCreateInfoCount = transfer_count != 0 ? 2 : 1;
  info.pQueueCreateInfos = queues;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VK_CHECK(inst.vk.vkCreateDevice(physical.handle, &info, nullptr, &impl->handle));
  load_device_functions(inst.vk, impl->handle, impl->vk);
  const auto take_queues = [&](uint32_t family, uint32_t count, auto& taken) {
    for (uint32_t i = 0; i < count; ++i) {
      taken.push_back(std::make_unique<Queue>());
      impl->vk.vkGetDeviceQueue(impl->handle, family, i, &taken.back()->handle);
    }
  };
  take_queues(physical.queue_family, queue_count, impl->queues);
  take_queues(physical.transfer_family, transfer_count, impl->transfer_queues);
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, nullptr, {}};
  inst.vk.vkGetPhysicalDeviceMemoryProperties2(physical.handle, &memory);
  impl->memory_properties = memory.memoryProperties;
  for (VkMemoryHeap& heap : std::span(impl->memory_properties.memoryHeaps, impl->memory_properties.memoryHeapCount)) {
    if (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      heap.size = std::min<VkDeviceSize>(heap.size, impl->profile.device_heap_bytes);  // which TORCH_AULE_LIMITS lowers
  }
  impl->memory = std::make_unique<MemoryPool>(*impl);
  impl->error_record = impl->memory->allocate(MemoryKind::host, 256);
  std::memset(impl->error_record->mapped, 0, 256);
  if (physical.software) set_loop_limit(impl->profile, probe_loop_limit(*impl));
  if (impl->profile.driver_loop_limit != 0 && !environment().disabled.loop_guard)
    impl->loop_guard = std::make_unique<LoopGuard>(*impl);
  impl->pipelines = std::make_unique<PipelineStore>(*impl);
  return impl;
}

}  // namespace

void DeviceImpl::mark_lost(const char* call, const std::string& in_flight) {
  std::lock_guard lock(lost_mutex);
  if (lost.load()) return;
  lost_text = "aule:" + std::to_string(index) + " (" + profile.name + ") was lost: " + call +
              " answered VK_ERROR_DEVICE_LOST. Kernels in flight: " + (in_flight.empty() ? "none" : in_flight) + ".";
  if (profile.device_fault && vk.vkGetDeviceFaultInfoEXT && !lose_next_submit.load()) {
    VkDeviceFaultCountsEXT counts{VK_STRUCTURE_TYPE_DEVICE_FAULT_COUNTS_EXT};
    if (vk.vkGetDeviceFaultInfoEXT(handle, &counts, nullptr) == VK_SUCCESS) {
      std::vector<VkDeviceFaultAddressInfoEXT> addresses(counts.addressInfoCount);
      std::vector<VkDeviceFaultVendorInfoEXT> vendor(counts.vendorInfoCount);
      counts.vendorBinarySize = 0;
      VkDeviceFaultInfoEXT info{VK_STRUCTURE_TYPE_DEVICE_FAULT_INFO_EXT};
      info.pAddressInfos = addresses.data();
      info.pVendorInfos = vendor.data();
      if (vk.vkGetDeviceFaultInfoEXT(handle, &counts, &info) >= 0) {
        if (info.description[0]) lost_text += std::string(" Driver: ") + info.description + ".";
        for (uint32_t i = 0; i < counts.addressInfoCount && i < 4; ++i) {
          char text[64];
          std::snprintf(text, sizeof text, " Fault address 0x%llx (type %d).",
                        static_cast<unsigned long long>(addresses[i].reportedAddress),
                        static_cast<int>(addresses[i].addressType));
          lost_text += text;
        }
        for (uint32_t i = 0; i < counts.vendorInfoCount && i < 4; ++i)
          lost_text += std::string(" ") + vendor[i].description + ".";
      }
    }
  }
  lost_text += " The device cannot be used any more in this process.";
  lost.store(true, std::memory_order_release);
}

void DeviceImpl::throw_lost() {
  std::lock_guard lock(lost_mutex);
  raise(FailureKind::device_lost, lost_text);
}

void DeviceImpl::fail(VkResult result, const char* call, const char* file, int line, const std::string& in_flight) {
  if (result == VK_ERROR_DEVICE_LOST) {
    mark_lost(call, in_flight);
    throw_lost();
  }
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
    raise(FailureKind::out_of_memory, std::string(call) + " failed: " + result_name(result));
  throw_vulkan(result, call, file, line);
}

int device_count() noexcept { return static_cast<int>(enumeration().visible.size()); }
bool device_has_priorities(int index) {
  return high_priority_queues(std::min(enumeration().visible.at(static_cast<size_t>(index)).queue_count, kMaxQueues)) >
         0;
}
std::string unavailable_reason() { return enumeration().reason; }

const DeviceProfile& device_profile(int index) {
  const auto& visible = enumeration().visible;
  if (index < 0 || static_cast<size_t>(index) >= visible.size())
    raise_unavailable("aule:" + std::to_string(index) + " does not exist: " + std::to_string(visible.size()) +
                      " device(s) visible. ");
  if (const Device* created = g_devices.at(static_cast<size_t>(index)).load(std::memory_order_acquire))
    return created->profile();  // these include the measured ones
  return visible[static_cast<size_t>(index)].profile;
}

bool device_created(int index) noexcept {
  return index >= 0 && index < kMaxDevices &&
         g_devices[static_cast<size_t>(index)].load(std::memory_order_acquire) != nullptr;
}

Device& Device::get(int index) {
  if (device_created(index)) return *g_devices[static_cast<size_t>(index)].load(std::memory_order_acquire);
  device_profile(index);  // raises if there is none
  std::lock_guard lock(g_create_mutex);
  auto& slot = g_devices.at(static_cast<size_t>(index));
  if (slot.load() == nullptr) slot.store(new Device(create(index)), std::memory_order_release);
  return *slot.load();
}

Device::Device(std::unique_ptr<DeviceImpl> impl) : impl_(std::move(impl)) {}
Device::~Device() = default;
int Device::index() const { return impl_->index; }
const DeviceProfile& Device::profile() const { return impl_->profile; }
MemoryPool& Device::memory() { return *impl_->memory; }

void inject_device_lost(int index) { Device::get(index).impl().lose_next_submit = true; }

}  // namespace aule::vulkan
