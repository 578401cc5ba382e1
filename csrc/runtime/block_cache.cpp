#include "runtime/block_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "core/integer.h"
#include "stream/interrupts.h"
#include "vulkan/check.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

constexpr uint64_t kRound = 512;         // every block is a multiple of this, and so aligned to it
constexpr uint64_t kSmallMax = 1 << 20;  // requests up to this live in small segments
constexpr uint64_t kSmallSegment = 2 << 20;
constexpr uint64_t kLargeSegment = 20 << 20;  // requests below kLargeOwn share a segment of this size
constexpr uint64_t kLargeOwn = 10 << 20;      // from here on a segment of its own, rounded to kLargeRound
constexpr uint64_t kLargeRound = 2 << 20;
constexpr double kPressure = 0.95;  // of the driver's budget: from here on cached segments are given back
// As much of it, or a sixteenth, is left free as well: streams' chunks of parameters and copies come from the same heap
// on some devices, and cannot have cached segments given back.
constexpr uint64_t kRoom = 128 << 20;

uint64_t block_bytes(uint64_t requested) { return std::max(kRound, round_up(requested, kRound)); }

void update(StatArray& stat, const Pool& pool, int64_t by) {
  for (auto type : {StatType::AGGREGATE, pool.small ? StatType::SMALL_POOL : StatType::LARGE_POOL}) {
    auto& s = stat[static_cast<size_t>(type)];
    if (by >= 0)
      s.increase(static_cast<size_t>(by));
    else
      s.decrease(static_cast<size_t>(-by));
  }
}

std::string mib(uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Block* DeviceCache::allocate(uint64_t requested, c10::StreamId stream) {
  const CallStack stack = call_stack(StacksOf::live);
  std::unique_lock lock(mutex_);
  if (!pending_.empty()) process_pending(false);
  const uint64_t bytes = block_bytes(requested);
  if (bytes < requested)
    vulkan::raise(FailureKind::out_of_memory, c10::str("aule: cannot allocate ", requested, " bytes"));
  charge_quota(bytes, stream);
  Pool& pool = pool_for(bytes, stream);
  Block* block = take_cached(pool, bytes, stream);
  if (block == nullptr) {
    // A new segment may wait without the lock, where other threads charge quotas and set them.
    underway_[stream] += bytes;
    try {
      block = new_segment(pool, bytes, stream, stack, lock);
    } catch (...) {
      underway_[stream] -= bytes;
      refund_quota(bytes, stream);
      throw;
    }
    underway_[stream] -= bytes;
  }
  split(block, bytes, pool);
  block->allocated = true;
  block->stack = stack;
  block->requested = requested;
  block->last_use = ++tick_;
  update(stats_.allocation, pool, 1);
  update(stats_.allocated_bytes, pool, static_cast<int64_t>(block->bytes));
  update(stats_.active, pool, 1);
  update(stats_.active_bytes, pool, static_cast<int64_t>(block->bytes));
  update(stats_.requested_bytes, pool, static_cast<int64_t>(requested));
  note(MemoryAction::alloc, block, stack);
  return block;
}

void DeviceCache::free(Block* block) {
  const CallStack stack = call_stack(StacksOf::all);
  std::lock_guard lock(mutex_);
  note(MemoryAction::free_requested, block, stack != nullptr ? stack : block->stack);
  block->allocated = false;
  refund_quota(block_bytes(block->requested), block->stream);
  block->last_use = ++tick_;
  update(stats_.allocation, *block->pool, -1);
  update(stats_.allocated_bytes, *block->pool, -static_cast<int64_t>(block->bytes));
  update(stats_.requested_bytes, *block->pool, -static_cast<int64_t>(block->requested));
  if (block->other_streams.empty()) {
    give_back(block, stack);
    return;
  }
  PendingFree pending{block, {}};
  try {
    for (c10::StreamId id : block->other_streams)
      pending.markers.push_back(stream::CommandStream::get(device_, id).record(/*timing=*/false));
  } catch (const Failure& failure) {
    if (failure.kind != FailureKind::device_lost) throw;
    // Nothing uses it any more, and a destructor may not throw.
    pending.markers.clear();
  }
  block->other_streams.clear();
  block->pending = true;
  pending_.push_back(std::move(pending));
}

void DeviceCache::record_stream(Block* block, c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  if (stream == block->stream) return;
  auto& others = block->other_streams;
  if (std::find(others.begin(), others.end(), stream) == others.end()) others.push_back(stream);
}

void DeviceCache::empty_cache() {
  if (!vulkan::device_created(device_)) return;
  std::unique_lock lock(mutex_);
  wait_for_device(lock);
  release_cached(UINT64_MAX);
}

void DeviceCache::set_fraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "set_per_process_memory_fraction: fraction must be in [0, 1], got ",
                    fraction);
  std::lock_guard lock(mutex_);
  fraction_ = fraction;
}

double DeviceCache::fraction() {
  std::lock_guard lock(mutex_);
  return fraction_;
}

uint64_t DeviceCache::allocated_on(c10::StreamId stream) const {
  uint64_t bytes = 0;
  for (const Block* head : segments_)
    for (const Block* b = head; b != nullptr; b = b->next)
      if (b->allocated && b->stream == stream) bytes += block_bytes(b->requested);
  return bytes;
}

void DeviceCache::set_quota(const std::vector<c10::StreamId>& streams, uint64_t bytes, const std::string& owner) {
  std::lock_guard lock(mutex_);
  const auto quota = std::make_shared<StreamQuota>(StreamQuota{owner, bytes, 0});
  for (const c10::StreamId stream : streams) {
    quota->used_bytes += allocated_on(stream) + underway_[stream];
    quotas_[stream] = quota;
  }
}

void DeviceCache::clear_quota(c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  quotas_.erase(stream);
}

uint64_t DeviceCache::bytes_of(c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  return allocated_on(stream);
}

void DeviceCache::charge_quota(uint64_t bytes, c10::StreamId stream) {
  const auto found = quotas_.find(stream);
  if (found == quotas_.end()) return;
  StreamQuota& quota = *found->second;
  if (bytes <= quota.limit_bytes && quota.used_bytes <= quota.limit_bytes - bytes) {
    quota.used_bytes += bytes;
    return;
  }
  ++stats_.num_ooms;
  vulkan::raise(FailureKind::out_of_memory,
                c10::str("aule out of memory. Tried to allocate ", mib(bytes), " in ", quota.owner, ", whose quota is ",
                         mib(quota.limit_bytes), " and whose tensors hold ", mib(quota.used_bytes)));
}

void DeviceCache::refund_quota(uint64_t bytes, c10::StreamId stream) {
  const auto found = quotas_.find(stream);
  if (found != quotas_.end()) found->second->used_bytes -= bytes;
}

DeviceStats DeviceCache::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceCache::reset(bool peak) {
  std::lock_guard lock(mutex_);
  for (StatArray* array :
       {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes,
        &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes}) {
    for (auto& stat : *array) {
      if (peak)
        stat.reset_peak();
      else
        stat.reset_accumulated();
    }
  }
  if (!peak) stats_.num_alloc_retries = stats_.num_ooms = stats_.num_device_alloc = stats_.num_device_free = 0;
}

std::vector<SegmentRow> DeviceCache::snapshot(std::vector<MemoryEvent>* events) {
  std::lock_guard lock(mutex_);
  if (events != nullptr) {
    const auto& active = stats_.active_bytes[static_cast<size_t>(StatType::AGGREGATE)];
    history_.add(MemoryAction::snapshot, 0, static_cast<uint64_t>(active.current), 0, {0, 0}, nullptr);
    *events = history_.events();
  }
  std::vector<SegmentRow> rows;
  for (Block* head : segments_) {
    SegmentRow row{device_,
                   head->segment->address,
                   head->segment->bytes,
                   0,
                   0,
                   head->stream,
                   !head->pool->small,
                   head->pool->id,
                   head->segment_stack,
                   {}};
    for (Block* b = head; b != nullptr; b = b->next) {
      if (b->allocated) row.allocated_bytes += b->bytes;
      if (b->allocated || b->pending) row.active_bytes += b->bytes;
      row.blocks.push_back({b->address, b->bytes, b->requested,
                            b->allocated ? "active_allocated"
                            : b->pending ? "active_pending_free"
                                         : "inactive",
                            b->stack});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void DeviceCache::begin_pool(c10::MempoolId_t id, c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  auto& pool = private_pools_[id];
  if (pool == nullptr) {
    pool = std::make_unique<PrivatePool>();
    pool->id = pool->small.id = pool->large.id = id;
    pool->small.small = true;
  }
  ++pool->uses;
  capturing_[stream] = pool.get();
}

void DeviceCache::end_pool(c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  capturing_.erase(stream);
}

void DeviceCache::release_pool(c10::MempoolId_t id) {
  std::lock_guard lock(mutex_);
  auto it = private_pools_.find(id);
  if (it == private_pools_.end() || --it->second->uses > 0) return;
  // From now on an ordinary pool's blocks: free ones can be released, tensors that still live free into it.
  for (auto [from, to] : {std::pair{&it->second->small, &small_}, std::pair{&it->second->large, &large_}}) {
    for (Block* block : from->free) to->free.insert(block);
    for (Block* head : segments_)
      for (Block* b = head; b != nullptr; b = b->next)
        if (b->pool == from) b->pool = to;
  }
  private_pools_.erase(it);
}

uint64_t DeviceCache::pool_bytes(c10::MempoolId_t id) {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Block* head : segments_)
    if (head->pool->id == id) bytes += head->segment->bytes;
  return bytes;
}

Pool& DeviceCache::pool_for(uint64_t bytes, c10::StreamId stream) {
  const bool is_small = bytes <= kSmallMax;
  if (!capturing_.empty()) {
    auto it = capturing_.find(stream);
    if (it != capturing_.end()) return is_small ? it->second->small : it->second->large;
  }
  return is_small ? small_ : large_;
}

Block* DeviceCache::take_cached(Pool& pool, uint64_t bytes, c10::StreamId stream) {
  Block key;
  key.stream = stream;
  key.bytes = bytes;
  auto it = pool.free.lower_bound(&key);
  if (it == pool.free.end() || (*it)->stream != stream) return nullptr;
  Block* block = *it;
  // A large segment is not broken up for a much smaller request that deserves one of its own.
  if (!pool.small && block->whole_segment() && bytes < kLargeOwn && block->bytes > kLargeSegment) return nullptr;
  if (!pool.small && bytes >= kLargeOwn && block->bytes > 2 * bytes && block->bytes - bytes > (256u << 20))
    return nullptr;
  pool.free.erase(it);
  if (!block->whole_segment()) track_split(block, -1);
  return block;
}

void DeviceCache::track_split(const Block* block, int sign) {
  update(stats_.inactive_split, *block->pool, sign);
  update(stats_.inactive_split_bytes, *block->pool, sign * static_cast<int64_t>(block->bytes));
}

void DeviceCache::split(Block* block, uint64_t bytes, Pool& pool) {
  const uint64_t rest = block->bytes - bytes;
  if (rest < (pool.small ? kRound : kSmallMax)) return;
  auto* tail = new Block(*block);
  tail->address = block->address + bytes;
  tail->bytes = rest;
  tail->requested = 0;
  tail->prev = block;
  if (tail->next != nullptr) tail->next->prev = tail;
  block->next = tail;
  block->bytes = bytes;
  tail->allocated = tail->pending = false;
  tail->stack = nullptr;
  pool.free.insert(tail);
  track_split(tail, 1);
}

void DeviceCache::give_back(Block* block, const CallStack& stack) {
  note(MemoryAction::free_completed, block, stack != nullptr ? stack : block->stack);
  block->stack = nullptr;
  update(stats_.active, *block->pool, -1);
  update(stats_.active_bytes, *block->pool, -static_cast<int64_t>(block->bytes));
  block->pending = false;
  block->requested = 0;
  for (Block* neighbour : {block->prev, block->next}) {
    if (neighbour == nullptr || neighbour->allocated || neighbour->pending) continue;
    block->pool->free.erase(neighbour);
    track_split(neighbour, -1);
    if (neighbour == block->prev) {
      block->address = neighbour->address;
      block->prev = neighbour->prev;
      if (block->prev != nullptr) block->prev->next = block;
      // The list of segments names each segment's first block.
      if (segments_.erase(neighbour) != 0) segments_.insert(block);
    } else {
      block->next = neighbour->next;
      if (block->next != nullptr) block->next->prev = block;
    }
    block->bytes += neighbour->bytes;
    delete neighbour;
  }
  block->pool->free.insert(block);
  if (!block->whole_segment()) track_split(block, 1);
}

void DeviceCache::process_pending(bool wait) {
  for (size_t i = 0; i < pending_.size();) {
    bool done = true;
    for (auto& marker : pending_[i].markers) {
      if (marker.stream->capturing()) {
        done = false;
        break;
      }
      if (wait)
        marker.stream->wait(marker.value);
      else if (!marker.stream->done(marker.value)) {
        done = false;
        break;
      }
    }
    if (!done) {
      ++i;
      continue;
    }
    Block* block = pending_[i].block;
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    give_back(block, nullptr);
  }
}

void DeviceCache::wait_for_device(std::unique_lock<std::mutex>& lock) {
  if (!capturing_.empty()) return;
  lock.unlock();
  stream::synchronize_device(device_, /*arrivals=*/false);
  lock.lock();
}

uint64_t DeviceCache::release_cached(uint64_t bytes) {
  if (!capturing_.empty()) return 0;
  const stream::Uninterrupted locked;  // with the lock; the long wait was wait_for_device
  stream::synchronize_device(device_, /*arrivals=*/false);
  process_pending(true);
  std::vector<Block*> whole;
  for (Block* head : segments_)
    if (head->whole_segment() && !head->allocated && !head->pending && head->pool->id == c10::MempoolId_t{0, 0})
      whole.push_back(head);
  std::sort(whole.begin(), whole.end(), [](const Block* a, const Block* b) { return a->last_use < b->last_use; });
  uint64_t released = 0;
  for (Block* block : whole) {
    if (released >= bytes) break;
    released += block->bytes;
    block->pool->free.erase(block);
    segments_.erase(block);
    update(stats_.segment, *block->pool, -1);
    update(stats_.reserved_bytes, *block->pool, -static_cast<int64_t>(block->bytes));
    ++stats_.num_device_free;
    reserved_ -= block->bytes;
    note(MemoryAction::segment_free, block, block->segment_stack);
    vulkan::Device::get(device_).memory().free(block->segment);
    delete block;
  }
  return released;
}

Block* DeviceCache::new_segment(Pool& pool, uint64_t bytes, c10::StreamId stream, const CallStack& stack,
                                std::unique_lock<std::mutex>& lock) {
  // A graph's pool takes what it needs: nobody else can use the rest of a shared segment.
  const bool shared = bytes < kLargeOwn && pool.id == c10::MempoolId_t{0, 0};
  auto& device = vulkan::Device::get(device_);
  const Caps& caps = device.profile();
  const uint64_t largest_buffer = caps.max_buffer_bytes == 0 ? UINT64_MAX : caps.max_buffer_bytes;
  // Bytes that fit one allocation are not rounded past it, nor past whole pieces of 256, which memory comes in.
  const uint64_t largest = std::min(caps.max_allocation_bytes, largest_buffer) / 256 * 256;
  const uint64_t own = std::min(round_up(bytes, kLargeRound), std::max(bytes, largest));
  const uint64_t size = pool.small ? kSmallSegment : shared ? kLargeSegment : own;
  auto& memory = device.memory();
  const auto budget = memory.budget();
  const auto limit = static_cast<uint64_t>(fraction_ * static_cast<double>(budget.total_bytes));
  // Under pressure the cache gives way before the driver has to say no, and for the memory fraction.
  const uint64_t room = std::min(kRoom, budget.total_bytes / 16);
  const auto pressure = std::min(static_cast<uint64_t>(kPressure * static_cast<double>(budget.free_bytes)),
                                 budget.free_bytes - std::min(budget.free_bytes, room));
  const uint64_t wanted = reserved_ + size;
  const uint64_t missing = std::max(size - std::min(size, pressure), wanted - std::min(wanted, limit));
  if (missing > 0 && reserved_ > 0) {
    wait_for_device(lock);
    release_cached(missing);
  }
  std::string why;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (reserved_ + size > limit) {
      why = "the memory fraction of " + std::to_string(fraction_) + " allows " + mib(limit);
    } else {
      try {
        return adopt(memory.allocate(vulkan::MemoryKind::device, size, /*mapped=*/pool.small), pool, stream, stack);
      } catch (const vulkan::OutOfMemory& error) {
        why = error.what();
      }
    }
    if (attempt == 0) {
      ++stats_.num_alloc_retries;
      wait_for_device(lock);
      release_cached(UINT64_MAX);
      // A pending block may have become a cached one that fits.
      if (Block* block = take_cached(pool, bytes, stream)) return block;
    }
  }
  ++stats_.num_ooms;
  const auto& allocated = stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)];
  const auto now = memory.budget();
  history_.add(MemoryAction::oom, now.free_bytes, bytes, stream, pool.id, stack);
  vulkan::raise(
      FailureKind::out_of_memory,
      c10::str("aule out of memory. Tried to allocate ", mib(bytes), " on device ", static_cast<int>(device_), " (",
               vulkan::device_profile(device_).name, "): ", mib(now.total_bytes), " in all, ", mib(now.free_bytes),
               " free; of this process ", mib(static_cast<uint64_t>(allocated.current)), " are in tensors and ",
               mib(reserved_ - static_cast<uint64_t>(allocated.current)), " cached. Cause: ", why));
}

Block* DeviceCache::adopt(vulkan::Segment* segment, Pool& pool, c10::StreamId stream, const CallStack& stack) {
  auto* block = new Block;
  block->segment = segment;
  block->address = segment->address;
  block->bytes = segment->bytes;
  block->pool = &pool;
  block->device = device_;
  block->stream = stream;
  block->segment_stack = stack;
  segments_.insert(block);
  reserved_ += segment->bytes;
  ++stats_.num_device_alloc;
  update(stats_.segment, pool, 1);
  update(stats_.reserved_bytes, pool, static_cast<int64_t>(segment->bytes));
  note(MemoryAction::segment_alloc, block, stack);
  return block;
}

void DeviceCache::note(MemoryAction action, const Block* block, const CallStack& stack) {
  if (keeps_memory_history()) history_.add(action, block->address, block->bytes, block->stream, block->pool->id, stack);
}

}  // namespace aule::runtime
