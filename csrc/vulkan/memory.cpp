#include "vulkan/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/environment.h"
#include "core/integer.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"

namespace aule::vulkan {
namespace {

std::atomic<int> g_failures{0};
std::atomic<uint64_t> g_failures_min{0};

bool fail_now(uint64_t bytes) {
  if (g_failures.load() <= 0 || bytes < g_failures_min.load()) return false;
  return g_failures.fetch_sub(1) > 0;
}

std::string mebibytes(uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

struct SegmentState : Segment {
  VkBuffer vk_buffer = VK_NULL_HANDLE;
  std::vector<VkDeviceMemory> memories;  // several if the buffer is bound sparsely
  uint32_t heap = 0;
  uint64_t mapped_bytes = 0;  // counted in MemoryPoolImpl::mapped_bytes
};

}  // namespace

void inject_allocation_failures(int count, uint64_t min_bytes) {
  g_failures_min = min_bytes;
  g_failures = count;
}

struct MemoryPoolImpl {
  DeviceImpl& device;
  mutable std::shared_mutex mutex;
  std::map<uint64_t, SegmentState*> by_address;          // begin -> segment
  std::map<const char*, SegmentState*> by_host_pointer;  // host segments
  std::atomic<uint64_t> own_bytes[VK_MAX_MEMORY_HEAPS] = {};
  // Of mapped device segments where memory is not unified.
  int mapped_type = -1;
  uint64_t mapped_limit = 0;
  std::atomic<uint64_t> mapped_bytes{0};

  explicit MemoryPoolImpl(DeviceImpl& d) : device(d) {
    if (!device.profile.unified_memory && !environment().disabled.mapped_memory) choose_mapped_type();
    device.maps_blocks = device.profile.unified_memory || mapped_type >= 0;
  }

  // A device whose whole memory the host sees (resizable BAR) maps as much as it is asked for. Others offer a window,
  // often of 256 MiB, which parameters of kernels and other programs need too: half of it at most.
  void choose_mapped_type() {
    constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                              VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                              VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    constexpr VkMemoryPropertyFlags kOther =
        VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;  // slow for kernels
    const auto& p = device.memory_properties;
    const auto heap_of = [&](uint32_t type) { return p.memoryHeaps[p.memoryTypes[type].heapIndex].size; };
    uint64_t main = 0;
    for (uint32_t i = 0; i < p.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = p.memoryTypes[i].propertyFlags;
      if ((flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0) main = std::max(main, heap_of(i));
      if ((flags & kMapped) != kMapped || (flags & kOther) != 0) continue;
      if (mapped_type < 0 || heap_of(i) > heap_of(static_cast<uint32_t>(mapped_type)))
        mapped_type = static_cast<int>(i);
    }
    if (mapped_type < 0) return;
    const uint64_t heap = std::min<uint64_t>(heap_of(static_cast<uint32_t>(mapped_type)),
                                             device.profile.mapped_heap_bytes);  // which TORCH_AULE_LIMITS lowers
    mapped_limit = heap >= main ? heap : heap / 2;
  }

  // Memory of the mapped type for a device segment; false where it cannot be had.
  bool allocate_mapped(SegmentState& s, uint64_t bytes, const VkMemoryRequirements& need) {
    const auto type = static_cast<uint32_t>(mapped_type);
    if (mapped_type < 0 || (need.memoryTypeBits & (1u << type)) == 0 || fail_now(bytes)) return false;
    const uint32_t heap = device.memory_properties.memoryTypes[type].heapIndex;
    if (!fits_heap(heap, bytes)) return false;
    uint64_t taken = mapped_bytes.load();
    do {
      if (need.size > mapped_limit || taken > mapped_limit - need.size) return false;
    } while (!mapped_bytes.compare_exchange_weak(taken, taken + need.size));
    s.mapped_bytes = need.size;
    try {
      s.memories.push_back(allocate_memory(need.size, type));
    } catch (const OutOfMemory&) {
      give_back_mapped(s);
      return false;
    }
    if (device.vk.vkMapMemory(device.handle, s.memories.front(), 0, VK_WHOLE_SIZE, 0, &s.mapped) != VK_SUCCESS) {
      device.vk.vkFreeMemory(device.handle, s.memories.front(), nullptr);
      s.memories.clear();
      s.mapped = nullptr;
      give_back_mapped(s);
      return false;
    }
    s.heap = heap;
    return true;
  }

  void give_back_mapped(SegmentState& s) {
    mapped_bytes -= s.mapped_bytes;
    s.mapped_bytes = 0;
  }

  // Without VK_EXT_memory_budget the heap's size is the only known limit, and not every driver enforces it.
  bool fits_heap(uint32_t heap, uint64_t bytes) const {
    const uint64_t total = device.memory_properties.memoryHeaps[heap].size;
    return device.profile.memory_budget || (bytes <= total && own_bytes[heap] <= total - bytes);
  }

  uint32_t memory_type(uint32_t allowed, MemoryKind kind) const {
    constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    std::vector<VkMemoryPropertyFlags> wishes;
    if (kind == MemoryKind::host)
      wishes = {kHost | kCached, kHost};
    else if (kind == MemoryKind::upload)
      wishes = {kLocal | kHost, kHost};
    else if (device.profile.unified_memory)
      wishes = {kLocal | kHost | kCached, kLocal | kHost, kLocal, 0};
    else
      wishes = {kLocal, 0};
    const auto& p = device.memory_properties;
    for (VkMemoryPropertyFlags wish : wishes)
      for (uint32_t i = 0; i < p.memoryTypeCount; ++i)
        if ((allowed & (1u << i)) && (p.memoryTypes[i].propertyFlags & wish) == wish &&
            !(p.memoryTypes[i].propertyFlags & VK_MEMORY_PROPERTY_PROTECTED_BIT))
          return i;
    throw Error("no memory type fits a buffer of this device");
  }

  VkDeviceMemory allocate_memory(uint64_t bytes, uint32_t type, const void* next = nullptr) {
    const VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, next,
                                          VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};
    const VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, bytes, type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VK_CHECK(device.vk.vkAllocateMemory(device.handle, &info, nullptr, &memory));
    return memory;
  }

  void bind_sparse(SegmentState& s, const VkMemoryRequirements& need, uint32_t type) {
    const uint64_t limit = device.profile.max_allocation_bytes / need.alignment * need.alignment;
    std::vector<VkSparseMemoryBind> binds;
    for (uint64_t at = 0; at < need.size; at += limit) {
      const uint64_t part = std::min(limit, need.size - at);
      s.memories.push_back(allocate_memory(part, type));
      binds.push_back({at, part, s.memories.back(), 0, 0});
    }
    const VkSparseBufferMemoryBindInfo buffer{s.vk_buffer, static_cast<uint32_t>(binds.size()), binds.data()};
    VkSemaphore done;
    const VkSemaphoreTypeCreateInfo timeline{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr,
                                             VK_SEMAPHORE_TYPE_TIMELINE, 0};
    const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &timeline, 0};
    VK_CHECK(device.vk.vkCreateSemaphore(device.handle, &semaphore, nullptr, &done));
    const uint64_t one = 1;
    const VkTimelineSemaphoreSubmitInfo values{
        VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, nullptr, 0, nullptr, 1, &one};
    VkBindSparseInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO;
    info.pNext = &values;
    info.bufferBindCount = 1;
    info.pBufferBinds = &buffer;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &done;
    {
      Queue& queue = *device.queues.front();
      std::lock_guard lock(queue.mutex);
      VK_CHECK(device.vk.vkQueueBindSparse(queue.handle, 1, &info, VK_NULL_HANDLE));
    }
    const VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &done, &one};
    VK_CHECK(device.vk.vkWaitSemaphores(device.handle, &wait, UINT64_MAX));
    device.vk.vkDestroySemaphore(device.handle, done, nullptr);
  }

  void destroy(SegmentState* s) {
    if (s->vk_buffer != VK_NULL_HANDLE) device.vk.vkDestroyBuffer(device.handle, s->vk_buffer, nullptr);
    for (VkDeviceMemory memory : s->memories) device.vk.vkFreeMemory(device.handle, memory, nullptr);  // unmaps too
    give_back_mapped(*s);
    delete s;
  }

  SegmentState* create(MemoryKind kind, uint64_t bytes, bool mapped) {
    const Caps& caps = device.profile;
    const bool sparse = bytes > caps.max_allocation_bytes;
    if (caps.max_buffer_bytes != 0 && bytes > caps.max_buffer_bytes)
      throw OutOfMemory("one buffer of " + std::to_string(bytes) +
                        " bytes is larger than the device's largest buffer (" + std::to_string(caps.max_buffer_bytes) +
                        " bytes)");
    if (sparse && (!caps.sparse_binding || kind != MemoryKind::device))
      throw OutOfMemory(
          "one allocation of " + std::to_string(bytes) + " bytes is larger than the device's largest allocation (" +
          std::to_string(caps.max_allocation_bytes) + " bytes), and the device has no sparse binding to join several");
    auto* s = new SegmentState;
    try {
      const VkMemoryRequirements need = make_buffer(
          *s, bytes, sparse ? VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT : 0);
      if (mapped && kind == MemoryKind::device && !sparse && allocate_mapped(*s, bytes, need)) {
        bind(*s);
        complete(*s, kind, bytes);
        return s;
      }
      if (fail_now(bytes)) throw OutOfMemory("allocation failure injected by a test");
      const uint32_t type = memory_type(need.memoryTypeBits, kind);
      s->heap = device.memory_properties.memoryTypes[type].heapIndex;
      if (!fits_heap(s->heap, bytes)) throw OutOfMemory("past the heap's size");
      if (sparse) {
        bind_sparse(*s, need, type);
      } else {
        s->memories.push_back(allocate_memory(need.size, type));
        bind(*s);
        const bool visible =
            (device.memory_properties.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
        if (visible && (kind != MemoryKind::device || caps.unified_memory)) {
          VK_CHECK(device.vk.vkMapMemory(device.handle, s->memories.front(), 0, VK_WHOLE_SIZE, 0, &s->mapped));
          s->cached =
              (device.memory_properties.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
        }
      }
      complete(*s, kind, bytes);
    } catch (...) {
      destroy(s);
      throw;
    }
    return s;
  }

  VkMemoryRequirements make_buffer(SegmentState& s, uint64_t bytes, VkBufferCreateFlags flags,
                                   const void* next = nullptr) {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.pNext = next;
    info.flags = flags;
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (device.profile.driver_loop_limit != 0) info.usage |= VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;  // loop_guard.h
    const uint32_t families[] = {device.queue_family, device.transfer_family};
    if (!device.transfer_queues.empty()) {
      info.sharingMode = VK_SHARING_MODE_CONCURRENT;
      info.queueFamilyIndexCount = 2;
      info.pQueueFamilyIndices = families;
    }
    VK_CHECK(device.vk.vkCreateBuffer(device.handle, &info, nullptr, &s.vk_buffer));
    const VkBufferMemoryRequirementsInfo2 ask{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2, nullptr,
                                              s.vk_buffer};
    VkMemoryRequirements2 need{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, nullptr, {}};
    device.vk.vkGetBufferMemoryRequirements2(device.handle, &ask, &need);
    return need.memoryRequirements;
  }

  void bind(SegmentState& s) {
    const VkBindBufferMemoryInfo info{VK_STRUCTURE_TYPE_BIND_BUFFER_MEMORY_INFO, nullptr, s.vk_buffer,
                                      s.memories.front(), 0};
    VK_CHECK(device.vk.vkBindBufferMemory2(device.handle, 1, &info));
  }

  void complete(SegmentState& s, MemoryKind kind, uint64_t bytes) {
    const VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, s.vk_buffer};
    s.address = device.vk.vkGetBufferDeviceAddress(device.handle, &address);
    s.bytes = bytes;
    s.kind = kind;
    s.handle = &s;
    s.buffer = s.vk_buffer;
  }

  uint64_t import_alignment() const {
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{};
    host.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &host;
    device.instance_vk->vkGetPhysicalDeviceProperties2(device.physical, &properties);
    return host.minImportedHostPointerAlignment;
  }

  // Null if this memory or this device will not do.
  SegmentState* import(void* pointer, uint64_t bytes) {
    constexpr auto kType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    const uint64_t alignment = import_alignment();
    if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0 || bytes % alignment != 0) return nullptr;
    const Caps& caps = device.profile;
    if (bytes > caps.max_allocation_bytes || (caps.max_buffer_bytes != 0 && bytes > caps.max_buffer_bytes))
      return nullptr;
    VkMemoryHostPointerPropertiesEXT types{};
    types.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT;
    if (device.vk.vkGetMemoryHostPointerPropertiesEXT(device.handle, kType, pointer, &types) != VK_SUCCESS)
      return nullptr;
    auto* s = new SegmentState;
    try {
      const VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, nullptr,
                                                      kType};
      const VkMemoryRequirements need = make_buffer(*s, bytes, 0, &external);
      const uint32_t fits = need.memoryTypeBits & types.memoryTypeBits;
      if (fits == 0 || need.size > bytes) throw Error("no memory type for it");
      const uint32_t type = memory_type(fits, MemoryKind::host);
      const VkMemoryPropertyFlags flags = device.memory_properties.memoryTypes[type].propertyFlags;
      s->heap = device.memory_properties.memoryTypes[type].heapIndex;
      VkImportMemoryHostPointerInfoEXT from{};
      from.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
      from.handleType = kType;
      from.pHostPointer = pointer;
      s->memories.push_back(allocate_memory(bytes, type, &from));
      bind(*s);
      complete(*s, MemoryKind::host, bytes);
      s->mapped = pointer;
      s->imported = true;
      s->cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    } catch (...) {  // a lost device is reported by what uses it next
      destroy(s);
      return nullptr;
    }
    return s;
  }

  void add(SegmentState* s) {
    std::unique_lock lock(mutex);
    by_address[s->address] = s;
    if (s->kind == MemoryKind::host) by_host_pointer[static_cast<const char*>(s->mapped)] = s;
    if (!s->imported) own_bytes[s->heap] += s->bytes;
  }
};

MemoryPool::MemoryPool(DeviceImpl& device) : impl_(std::make_unique<MemoryPoolImpl>(device)) {}
MemoryPool::~MemoryPool() = default;

Segment* MemoryPool::allocate(MemoryKind kind, uint64_t bytes, bool mapped) {
  impl_->device.check_alive();
  bytes = round_up(std::max<uint64_t>(bytes, 1), 256);
  SegmentState* s = nullptr;
  try {
    s = impl_->create(kind, bytes, mapped);
  } catch (const OutOfMemory& error) {
    const MemoryBudget b = budget();
    throw OutOfMemory("aule:" + std::to_string(impl_->device.index) + ": cannot allocate " + mebibytes(bytes) + ": " +
                      error.what() + "; the device has " + mebibytes(b.total_bytes) + ", of which " +
                      mebibytes(b.free_bytes) + " are free");
  }
  impl_->add(s);
  return s;
}

Segment* MemoryPool::import_host(void* pointer, uint64_t bytes) {
  if (!impl_->device.profile.external_memory_host) return nullptr;
  impl_->device.check_alive();
  SegmentState* s = impl_->import(pointer, bytes);
  if (s != nullptr) impl_->add(s);
  return s;
}

void MemoryPool::free(Segment* segment) {
  auto* s = static_cast<SegmentState*>(segment->handle);
  {
    std::unique_lock lock(impl_->mutex);
    impl_->by_address.erase(s->address);
    if (s->kind == MemoryKind::host) impl_->by_host_pointer.erase(static_cast<const char*>(s->mapped));
    if (!s->imported) impl_->own_bytes[s->heap] -= s->bytes;
  }
  impl_->destroy(s);
}

Segment* MemoryPool::find(uint64_t address) const {
  std::shared_lock lock(impl_->mutex);
  auto it = impl_->by_address.upper_bound(address);
  if (it == impl_->by_address.begin()) return nullptr;
  --it;
  return address < it->first + it->second->bytes ? it->second : nullptr;
}

Segment* MemoryPool::find_host(const void* pointer) const {
  const auto* p = static_cast<const char*>(pointer);
  std::shared_lock lock(impl_->mutex);
  auto it = impl_->by_host_pointer.upper_bound(p);
  if (it == impl_->by_host_pointer.begin()) return nullptr;
  --it;
  return p < it->first + it->second->bytes ? it->second : nullptr;
}

MemoryBudget MemoryPool::budget() const {
  DeviceImpl& d = impl_->device;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 memory{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, d.profile.memory_budget ? &budget : nullptr, {}};
  d.instance_vk->vkGetPhysicalDeviceMemoryProperties2(d.physical, &memory);
  const auto& p = memory.memoryProperties;
  uint32_t heap = 0;
  uint64_t largest = 0;
  for (uint32_t i = 0; i < p.memoryHeapCount; ++i) {
    if (!(p.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || p.memoryHeaps[i].size < largest) continue;
    heap = i;
    largest = p.memoryHeaps[i].size;
  }
  const uint64_t total = d.memory_properties.memoryHeaps[heap].size;  // which TORCH_AULE_LIMITS may have lowered
  const uint64_t own = impl_->own_bytes[heap].load();
  if (!d.profile.memory_budget) return {total - std::min(total, own), total};
  const uint64_t used = budget.heapUsage[heap], allowed = std::min(budget.heapBudget[heap], total);
  return {allowed - std::min(allowed, used), total};
}

MemoryLayout MemoryPool::layout() const {
  const VkPhysicalDeviceMemoryProperties& p = impl_->device.memory_properties;
  MemoryLayout layout;
  for (uint32_t i = 0; i < p.memoryHeapCount; ++i) {
    const bool local = (p.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    layout.heaps.push_back({p.memoryHeaps[i].size, local, impl_->own_bytes[i].load()});
  }
  for (uint32_t i = 0; i < p.memoryTypeCount; ++i)
    layout.types.push_back({p.memoryTypes[i].heapIndex, p.memoryTypes[i].propertyFlags});
  layout.mapped_type = impl_->mapped_type;
  layout.mapped_limit_bytes = impl_->mapped_limit;
  layout.mapped_bytes = impl_->mapped_bytes.load();
  return layout;
}

}  // namespace aule::vulkan
