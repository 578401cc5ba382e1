// Pinned host memory: host-visible Vulkan segments, so that copies to and from it need no staging.
#pragma once
#include <ATen/core/CachingHostAllocator.h>

#include <cstdint>

namespace aule::runtime {

at::HostAllocator* host_allocator();
// Device address of a pinned host pointer (interior pointers too) on `device`; 0 when it is not pinned there.
uint64_t pinned_address(const void* pointer, int device);
bool is_pinned(const void* pointer);

}  // namespace aule::runtime
