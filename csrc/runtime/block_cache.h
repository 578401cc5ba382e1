// The caching allocator's memory of one device: blocks of driver segments, free ones by stream and size.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/memory_history.h"
#include "stream/command_stream.h"
#include "vulkan/memory.h"

namespace aule::runtime {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

struct Pool;

struct Block {
  uint64_t address = 0, bytes = 0, requested = 0;
  vulkan::Segment* segment = nullptr;
  Block *prev = nullptr, *next = nullptr;  // neighbours inside the segment
  Pool* pool = nullptr;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  bool allocated = false;                    // handed to a tensor
  bool pending = false;                      // freed, but another stream has still to pass it
  uint64_t last_use = 0;                     // tick of the last hand-out or free, for least-recently-used release
  std::vector<c10::StreamId> other_streams;  // record_stream
  CallStack stack, segment_stack;            // who asked for the block, and for its segment
  bool whole_segment() const { return prev == nullptr && next == nullptr; }
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    return a->address < b->address;
  }
};

struct Pool {
  bool small = false;
  c10::MempoolId_t id{0, 0};
  std::set<Block*, BySize> free;
};

struct PrivatePool {
  c10::MempoolId_t id;
  Pool small, large;
  int uses = 0;
};

struct StreamQuota {
  std::string owner;
  uint64_t limit_bytes, used_bytes;
};

struct PendingFree {
  Block* block;
  std::vector<stream::Marker> markers;
};

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device) : device_(device) { small_.small = true; }

  Block* allocate(uint64_t requested, c10::StreamId stream);
  void free(Block* block);
  void record_stream(Block* block, c10::StreamId stream);
  void empty_cache();

  void set_fraction(double fraction);
  double fraction();

  void set_quota(const std::vector<c10::StreamId>& streams, uint64_t bytes, const std::string& owner);
  void clear_quota(c10::StreamId stream);
  uint64_t bytes_of(c10::StreamId stream);

  DeviceStats stats();
  void reset(bool peak);
  std::vector<SegmentRow> snapshot(std::vector<MemoryEvent>* events);

  void begin_pool(c10::MempoolId_t id, c10::StreamId stream);
  void end_pool(c10::StreamId stream);
  void release_pool(c10::MempoolId_t id);
  uint64_t pool_bytes(c10::MempoolId_t id);

 private:
  uint64_t allocated_on(c10::StreamId stream) const;
  // Quotas count what was asked for, in whole blocks' steps, from before the block is looked for.
  void charge_quota(uint64_t bytes, c10::StreamId stream);  // raises above the limit
  void refund_quota(uint64_t bytes, c10::StreamId stream);
  Pool& pool_for(uint64_t bytes, c10::StreamId stream);
  Block* take_cached(Pool& pool, uint64_t bytes, c10::StreamId stream);
  Block* new_segment(Pool& pool, uint64_t bytes, c10::StreamId stream, const CallStack& stack,
                     std::unique_lock<std::mutex>& lock);
  Block* adopt(vulkan::Segment* segment, Pool& pool, c10::StreamId stream, const CallStack& stack);
  void note(MemoryAction action, const Block* block, const CallStack& stack);
  void split(Block* block, uint64_t bytes, Pool& pool);
  void give_back(Block* block, const CallStack& stack);
  void process_pending(bool wait);
  // Waits without the lock, so that a signal can interrupt it. While a graph is captured nothing is waited for.
  void wait_for_device(std::unique_lock<std::mutex>& lock);
  // Gives whole cached segments back to the driver, least recently used first, until `bytes` are free.
  // Waits for the device: something recorded may still use them.
  uint64_t release_cached(uint64_t bytes);
  // Statistics of free blocks that share their segment with others.
  void track_split(const Block* block, int sign);

  std::mutex mutex_;
  c10::DeviceIndex device_;
  Pool small_, large_;
  std::set<Block*> segments_;  // first block of every segment
  std::vector<PendingFree> pending_;
  std::map<c10::MempoolId_t, std::unique_ptr<PrivatePool>> private_pools_;
  std::map<c10::StreamId, PrivatePool*> capturing_;
  std::map<c10::StreamId, std::shared_ptr<StreamQuota>> quotas_;  // streams of one owner share one
  std::map<c10::StreamId, uint64_t> underway_;                    // charged, without a block yet
  uint64_t reserved_ = 0, tick_ = 0;
  double fraction_ = 1.0;
  DeviceStats stats_;
  MemoryHistory history_;
};

}  // namespace aule::runtime
