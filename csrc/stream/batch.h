// One command buffer and what it needs while it runs: chunks of host-visible memory and the kernels' names.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "kernels/launch.h"
#include "vulkan/device_impl.h"
#include "vulkan/pipeline.h"

namespace aule::stream {

// Host-visible memory cut from the front; recycled when the batch that used it has completed.
struct Chunk {
  vulkan::Segment* segment = nullptr;
  uint64_t used = 0;
  uint64_t left() const { return segment->bytes - used; }
};

class ChunkPool {
 public:
  ChunkPool(vulkan::DeviceImpl& device, uint64_t chunk_bytes) : device_(device), chunk_bytes_(chunk_bytes) {}
  Chunk take(uint64_t at_least);
  void give_back(Chunk chunk);
  uint64_t outstanding_bytes() const { return outstanding_; }

 private:
  vulkan::DeviceImpl& device_;
  uint64_t chunk_bytes_, outstanding_ = 0;
  std::vector<Chunk> free_;
};

struct Wait {
  VkSemaphore semaphore;
  uint64_t value;
};

struct Dispatched {
  const vulkan::Pipeline* pipeline;
  uint64_t groups;
};

struct Batch {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VkQueryPool times = VK_NULL_HANDLE;  // begin, end
  uint64_t value = 0;                  // timeline value it signals
  uint32_t recorded = 0;
  double estimated_ns = 0;
  bool host_reads = false;             // a barrier towards the host is due at its end
  std::vector<Wait> waits;
  std::vector<Dispatched> dispatched;
  std::vector<Access> touched;         // for direct host writes on unified memory
  std::vector<Chunk> params, staging;
  void clear();
};

}  // namespace aule::stream
