// Stream-ordered caching allocator: driver segments are cut into blocks, freed blocks are kept and merged.
//
// Lifetime: a block freed on the stream it was allocated on may be handed out again on that stream at once, because
// the stream keeps order; a block used on other streams (record_stream) waits until those have passed their work.
// Driver memory is given back only after the device has been waited for.
// Threads: one mutex per device. DataPtr: data = device address, context = Block*.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/memory_history.h"
#include "vulkan/memory.h"

namespace aule::runtime {

struct BlockRow {
  uint64_t address, bytes, requested_bytes;
  std::string state;  // active_allocated, active_pending_free, inactive
  CallStack stack;
};
struct SegmentRow {
  int device;
  uint64_t address, total_bytes, allocated_bytes, active_bytes;
  int64_t stream;
  bool large;
  c10::MempoolId_t pool;
  CallStack stack;
  std::vector<BlockRow> blocks;
};

c10::DeviceAllocator* device_allocator();

void empty_cache(c10::DeviceIndex device);
void set_memory_fraction(double fraction, c10::DeviceIndex device);  // of the device's total memory; (0, 1]
double memory_fraction(c10::DeviceIndex device);
std::pair<uint64_t, uint64_t> memory_info(c10::DeviceIndex device);  // free, total bytes by the driver's budget
vulkan::MemoryLayout memory_layout(c10::DeviceIndex device);
// The bytes that the streams' tensors may hold together; an allocation beyond raises an error that names the quota's
// owner.
void set_stream_quota(c10::DeviceIndex device, const std::vector<c10::StreamId>& streams, uint64_t bytes,
                      const std::string& owner);
void clear_stream_quota(c10::DeviceIndex device, c10::StreamId stream);
uint64_t stream_bytes(c10::DeviceIndex device, c10::StreamId stream);  // of tensors allocated on it
// `events`, unless null, is set to what is kept of the allocator's history, up to the segments that are returned.
std::vector<SegmentRow> memory_snapshot(c10::DeviceIndex device, std::vector<MemoryEvent>* events = nullptr);
std::map<std::string, int64_t> memory_stats(c10::DeviceIndex device);  // keys as torch.cuda.memory_stats
void reset_peak_stats(c10::DeviceIndex device);
void reset_accumulated_stats(c10::DeviceIndex device);

// Allocations of `stream` go to a private pool between begin and end (graph capture); the pool's memory is kept until
// it has been released as often as begun.
void begin_private_pool(c10::DeviceIndex device, c10::MempoolId_t pool, c10::StreamId stream);
void end_private_pool(c10::DeviceIndex device, c10::StreamId stream);
void release_private_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
bool is_of_pool(const c10::DataPtr& memory, c10::MempoolId_t pool);
uint64_t bytes_of_pool(c10::DeviceIndex device, c10::MempoolId_t pool);  // of driver memory

}  // namespace aule::runtime
