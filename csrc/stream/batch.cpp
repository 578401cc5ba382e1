// Command buffers and the memory they carry.
#include <algorithm>
#include <cstring>

#include "core/integer.h"
#include "core/per_device.h"
#include "stream/errors.h"
#include "stream/stream_impl.h"
#include "vulkan/loop_guard.h"

namespace aule::stream {
namespace {

// Chunks of all streams of one device. A chunk returns here after use. None is freed before the process ends.
struct ChunkPool {
  std::mutex mutex;
  std::vector<Segment*> free;
};
ChunkPool& chunk_pool(const DeviceImpl& d) {
  static const PerDevice<ChunkPool> pools;
  return pools[d.index];
}

}  // namespace

Segment* take_chunk(DeviceImpl& d, MemoryKind kind, uint64_t bytes) {
  ChunkPool& pool = chunk_pool(d);
  {
    std::lock_guard lock(pool.mutex);
    for (size_t i = pool.free.size(); i-- > 0;) {
      Segment* s = pool.free[i];
      if (s->kind != kind || s->bytes != bytes) continue;
      pool.free[i] = pool.free.back();
      pool.free.pop_back();
      return s;
    }
  }
  try {
    return d.memory->allocate(kind, bytes);
  } catch (const vulkan::OutOfMemory& error) {
    vulkan::raise(FailureKind::out_of_memory, error.what());
  }
}

void give_chunk(DeviceImpl& d, Segment* chunk) {
  ChunkPool& pool = chunk_pool(d);
  std::lock_guard lock(pool.mutex);
  pool.free.push_back(chunk);
}

Piece Ring::take(DeviceImpl& d, uint64_t bytes) {
  uint64_t at = round_up(used_, 16);
  if (chunks_.empty() || at + bytes > chunks_.back()->bytes) {
    uint64_t size = bytes <= chunk_bytes_ ? chunk_bytes_ : kBigStagingChunk;
    if (bytes > size) throw vulkan::Error("a ring piece of " + std::to_string(bytes) + " bytes is too large");
    chunks_.push_back(take_chunk(d, kind_, size));
    total_ += size;
    at = 0;
  }
  used_ = at + bytes;
  Segment* chunk = chunks_.back();
  return {static_cast<char*>(chunk->mapped) + at, chunk->address + at};
}

void Ring::recycle(DeviceImpl& d) {
  for (Segment* chunk : chunks_) give_chunk(d, chunk);
  chunks_.clear();
  used_ = total_ = 0;
}

void add_wait(std::vector<VkSemaphoreSubmitInfo>& waits, VkSemaphore timeline, uint64_t value) {
  for (VkSemaphoreSubmitInfo& wait : waits) {
    if (wait.semaphore != timeline) continue;
    wait.value = std::max(wait.value, value);
    return;
  }
  VkSemaphoreSubmitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
  wait.semaphore = timeline;
  wait.value = value;
  wait.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  waits.push_back(wait);
}

Batch* StreamImpl::make_batch() {
  DeviceImpl& d = *this->d;
  auto b = std::make_unique<Batch>(copies_only);
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = family;
  VK_CHECK(d.vk.vkCreateCommandPool(d.handle, &pool, nullptr, &b->pool));
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = b->pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VK_CHECK(d.vk.vkAllocateCommandBuffers(d.handle, &info, &b->cmd));
  // Copies have no estimates, and their queue could not reset a query.
  if (!copies_only && d.timestamp_bits != 0 && d.profile.timestamp_period_ns > 0) {
    VkQueryPoolCreateInfo query{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    query.queryType = VK_QUERY_TYPE_TIMESTAMP;
    query.queryCount = 2;
    VK_CHECK(d.vk.vkCreateQueryPool(d.handle, &query, nullptr, &b->timing));
  }
  return b.release();
}

void begin_batch(DeviceImpl& d, Batch& b, VkCommandBufferUsageFlags flags, bool timed) {
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = flags;
  VK_CHECK(d.vk.vkBeginCommandBuffer(b.cmd, &info));
  if (d.loop_guard && !b.copies_only) {
    const VkDescriptorSet set = d.loop_guard->set();
    d.vk.vkCmdBindDescriptorSets(b.cmd, VK_PIPELINE_BIND_POINT_COMPUTE, d.pipelines->layout(), 0, 1, &set, 0, nullptr);
  }
  b.timed = timed && b.timing != VK_NULL_HANDLE;
  if (b.timed) {
    d.vk.vkCmdResetQueryPool(b.cmd, b.timing, 0, 2);
    // Stage ALL_COMMANDS: the clock starts when earlier submissions are done, not when the GPU fetches this buffer.
    d.vk.vkCmdWriteTimestamp2(b.cmd, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, b.timing, 0);
  }
}

void end_batch(DeviceImpl& d, Batch& b) {
  if (b.trace) end_trace(d, b);
  if (b.timed) {
    d.vk.vkCmdWriteTimestamp2(b.cmd, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, b.timing, 1);
    if (d.profile.is_software()) {
      const Piece piece = b.staging.take(d, 2 * sizeof(uint64_t));
      const Segment* chunk = d.memory->find(piece.address);
      d.vk.vkCmdCopyQueryPoolResults(b.cmd, b.timing, 0, 2, static_cast<VkBuffer>(chunk->buffer),
                                     piece.address - chunk->address, sizeof(uint64_t),
                                     VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
      b.ticks = piece.host;
      b.writes_host = true;
    }
  }
  if (b.writes_host || d.maps_blocks) {
    // A wait for the timeline does not make device writes visible to the host. This barrier does. It is in every batch
    // where blocks are mapped, because what the host will read, and behind which stream's batches, is not known yet.
    // The end of a batch waits for its commands anyway, so the barrier adds a flush of what they wrote to memory.
    VkMemoryBarrier2 barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
    barrier.srcStageMask = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    barrier.srcAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT;
    if (!b.copies_only) {
      barrier.srcStageMask |= VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
      barrier.srcAccessMask |= VK_ACCESS_2_SHADER_WRITE_BIT;
    }
    barrier.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT;
    barrier.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT;
    VkDependencyInfo dependency{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
    dependency.memoryBarrierCount = 1;
    dependency.pMemoryBarriers = &barrier;
    d.vk.vkCmdPipelineBarrier2(b.cmd, &dependency);
  }
  VK_CHECK(d.vk.vkEndCommandBuffer(b.cmd));
}

bool read_timing(DeviceImpl& d, const Batch& b, uint64_t ticks[2]) {
  if (!b.timed) return false;
  constexpr size_t kBytes = 2 * sizeof(uint64_t);
  if (b.ticks != nullptr) {
    std::memcpy(ticks, b.ticks, kBytes);
  } else if (d.vk.vkGetQueryPoolResults(d.handle, b.timing, 0, 2, kBytes, ticks, sizeof ticks[0],
                                        VK_QUERY_RESULT_64_BIT) != VK_SUCCESS) {
    return false;
  }
  return ticks[1] >= ticks[0];
}

void recycle_batch(DeviceImpl& d, Batch& b) {
  VK_CHECK(d.vk.vkResetCommandPool(d.handle, b.pool, 0));
  b.params.recycle(d);
  b.staging.recycle(d);
  b.ticks = nullptr;
  b.least_value = 0;
  b.waits.clear();
  b.work.clear();
  b.pipelines.clear();
  b.held.clear();
  b.bound = VK_NULL_HANDLE;
  b.pushed_bytes = 0;
  b.commands = b.transfers = b.barriers = 0;
  b.predicted_ns = 0;
  b.writes_host = false;
}

void destroy_batch(DeviceImpl& d, Batch* b) {
  b->params.recycle(d);
  b->staging.recycle(d);
  if (b->timing) d.vk.vkDestroyQueryPool(d.handle, b->timing, nullptr);
  d.vk.vkDestroyCommandPool(d.handle, b->pool, nullptr);
  delete b;
}

// Cost of a barrier on an H200 (driver 580.159): a chain of dependent dispatches takes 1.6 us each for an empty kernel
// and 2.3 us for one that reads and writes. Independent dispatches take 0.19 us. CUDA's stream order takes 1.7 us for
// x.add_(1). Access masks of shader storage are as fast as none; MEMORY_READ with MEMORY_WRITE takes 5.4 us.
void record_barrier(DeviceImpl& d, VkCommandBuffer cmd, uint8_t before, uint8_t after) {
  VkMemoryBarrier2 barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
  if (before & kCompute) {
    barrier.srcStageMask |= VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
    barrier.srcAccessMask |= VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT;
  }
  if (before & kTransfer) {
    barrier.srcStageMask |= VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    barrier.srcAccessMask |= VK_ACCESS_2_TRANSFER_WRITE_BIT;
  }
  if (after & kCompute) {
    barrier.dstStageMask |= VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
    barrier.dstAccessMask |= VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT;
  }
  if (after & kTransfer) {
    barrier.dstStageMask |= VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    barrier.dstAccessMask |= VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT;
  }
  VkDependencyInfo dependency{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  d.vk.vkCmdPipelineBarrier2(cmd, &dependency);
}

}  // namespace aule::stream
