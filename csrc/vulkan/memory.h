// Driver allocations. One Segment is one VkDeviceMemory with one VkBuffer over it. Beyond the driver's largest
// allocation it is several, bound sparsely. The caching allocator divides segments into blocks.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace aule::vulkan {

enum class MemoryKind : uint8_t {
  device,  // device local; also mapped when memory is unified, or when the caller asks and the device can
  host,    // host visible, coherent, cached where possible: pinned memory and read-back staging
  upload,  // host visible, coherent, in device memory if that is host visible: parameters; the host never reads it
};

struct Segment {
  uint64_t address = 0;  // buffer device address
  uint64_t bytes = 0;
  void* mapped = nullptr;  // host pointer, or null
  MemoryKind kind = MemoryKind::device;
  void* handle = nullptr;  // private to memory.cpp
  void* buffer = nullptr;  // the VkBuffer, for transfers
  bool cached = false;     // the host reads `mapped` through its caches
  bool imported = false;   // `mapped` is memory of the program's own
};

struct MemoryBudget {
  uint64_t free_bytes, total_bytes;
};

// The driver's heaps and types, and this process's share of them.
struct MemoryLayout {
  struct Heap {
    uint64_t bytes;
    bool device_local;
    uint64_t taken_bytes;
  };
  struct Type {
    uint32_t heap, flags;  // VkMemoryPropertyFlags
  };
  std::vector<Heap> heaps;
  std::vector<Type> types;
  int mapped_type = -1;                               // of mapped device segments; -1: there are none
  uint64_t mapped_limit_bytes = 0, mapped_bytes = 0;  // of mapped device segments together
};

struct DeviceImpl;
struct MemoryPoolImpl;
class MemoryPool {
 public:
  explicit MemoryPool(DeviceImpl& device);
  ~MemoryPool();
  // Throws OutOfMemory with the sizes and leaks nothing. `bytes` is rounded up to 256. `mapped` asks for device memory
  // that the host sees. If the device has none, or none is left, the segment is in other device memory.
  Segment* allocate(MemoryKind kind, uint64_t bytes, bool mapped = false);
  // A host segment over memory of the program's own, which stays mapped until free(); null if the driver does not take
  // it: both numbers have to be multiples of its alignment.
  Segment* import_host(void* pointer, uint64_t bytes);
  void free(Segment* segment);  // no queue may use it any more
  // The segment that holds a device address / a host pointer of a mapped host segment, or null. Thread safe.
  Segment* find(uint64_t address) const;
  Segment* find_host(const void* pointer) const;
  MemoryBudget budget() const;
  MemoryLayout layout() const;

 private:
  std::unique_ptr<MemoryPoolImpl> impl_;
};

// Test hook: the next `count` driver allocations of at least `min_bytes` fail as if out of memory.
void inject_allocation_failures(int count, uint64_t min_bytes);

}  // namespace aule::vulkan
