// Pinned host memory: host-visible Vulkan segments, so that copies to and from it need no staging.
#pragma once
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace aule::vulkan {
struct Segment;
}

namespace aule::runtime {

at::HostAllocator* host_allocator();
// A tensor of bytes in pinned memory of `device`. Not by `pinned_memory(true)`: where there is CUDA, PyTorch takes
// CUDA's.
at::Tensor pinned_bytes(int64_t bytes, c10::Device device);
// Device address of a pinned host pointer (interior pointers too) on `device`; 0 when it is not pinned there.
uint64_t pinned_address(const void* pointer, int device);
bool is_pinned(const void* pointer);

// Host memory of the program's own that a device reads and writes in place: pinned, from now on. It stays mapped, and
// copies that use it have ended, when this goes.
class ImportedHost {
 public:
  // Nothing where the device cannot: it then copies to and from it as from any host memory.
  static std::optional<ImportedHost> import(void* pointer, uint64_t bytes, int device);
  ImportedHost(ImportedHost&& other) noexcept
      : segment_(std::exchange(other.segment_, nullptr)), device_(other.device_) {}
  ImportedHost& operator=(ImportedHost&&) = delete;
  ~ImportedHost();
  uint64_t address() const;  // on the device

 private:
  ImportedHost(vulkan::Segment* segment, int device) : segment_(segment), device_(device) {}
  vulkan::Segment* segment_;
  int device_;
};

}  // namespace aule::runtime
