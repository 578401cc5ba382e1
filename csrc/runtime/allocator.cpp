#include "runtime/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>

#include "core/per_device.h"
#include "runtime/block_cache.h"
#include "runtime/captured_call.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"
#include "vulkan/device.h"
#include "vulkan/physical.h"

namespace aule::runtime {
namespace {

DeviceCache& cache(c10::DeviceIndex device) {
  static std::mutex mutex;
  static const PerDevice<std::atomic<DeviceCache*>> caches;
  auto& slot = caches[device];
  DeviceCache* found = slot.load(std::memory_order_acquire);
  if (found == nullptr) {
    std::lock_guard lock(mutex);
    found = slot.load();
    if (found == nullptr) {
      found = new DeviceCache(device);  // lives until process exit: tensors may be freed very late
      slot.store(found, std::memory_order_release);
    }
  }
  return *found;
}

void report(void* address, int64_t by, c10::DeviceIndex device) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto stats = cache(device).stats();
  constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
  c10::reportMemoryUsageToProfiler(address, by, static_cast<size_t>(stats.allocated_bytes[kAll].current),
                                   static_cast<size_t>(stats.reserved_bytes[kAll].current),
                                   c10::Device(c10::DeviceType::PrivateUse1, device));
}

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block == nullptr || in_bad_fork()) return;  // the child of a fork owns nothing
  report(reinterpret_cast<void*>(block->address), -static_cast<int64_t>(block->bytes), block->device);
  cache(block->device).free(block);
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex index = current_device();
    const c10::Device device(c10::DeviceType::PrivateUse1, index);
    if (bytes == 0) return {nullptr, nullptr, &delete_block, device};
    check_not_forked();
    if (index >= vulkan::device_count()) vulkan::raise_unavailable("torch_aule: no Vulkan device: ");
    Block* block = cache(index).allocate(bytes, current_c10_stream(index).id());
    auto* address = reinterpret_cast<void*>(block->address);
    report(address, static_cast<int64_t>(block->bytes), index);
    return {address, block, &delete_block, device};
  }
  void copy_data(void* dst, const void* src, std::size_t bytes) const override {
    current_stream().copy(reinterpret_cast<uint64_t>(dst), reinterpret_cast<uint64_t>(src), bytes);
  }
  bool initialized() override { return vulkan::device_count() > 0; }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < vulkan::device_count(); ++i) cache(static_cast<c10::DeviceIndex>(i)).empty_cache();
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (record_stream_of_output(ptr, stream.id())) return;
    auto* block = static_cast<Block*>(ptr.get_context());
    if (block == nullptr || ptr.get_deleter() != &delete_block) return;
    cache(block->device).record_stream(block, stream.id());
  }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return cache(device).stats(); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { cache(device).reset(false); }
  void resetPeakStats(c10::DeviceIndex device) override { cache(device).reset(true); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return memory_info(device); }
};

Allocator g_allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &g_allocator)

}  // namespace

c10::DeviceAllocator* device_allocator() { return &g_allocator; }

void empty_cache(c10::DeviceIndex device) { cache(device).empty_cache(); }
void set_memory_fraction(double fraction, c10::DeviceIndex device) { cache(device).set_fraction(fraction); }
void set_stream_quota(c10::DeviceIndex device, const std::vector<c10::StreamId>& streams, uint64_t bytes,
                      const std::string& owner) {
  cache(device).set_quota(streams, bytes, owner);
}
void clear_stream_quota(c10::DeviceIndex device, c10::StreamId stream) { cache(device).clear_quota(stream); }
uint64_t stream_bytes(c10::DeviceIndex device, c10::StreamId stream) { return cache(device).bytes_of(stream); }
double memory_fraction(c10::DeviceIndex device) { return cache(device).fraction(); }
void reset_peak_stats(c10::DeviceIndex device) { cache(device).reset(true); }
void reset_accumulated_stats(c10::DeviceIndex device) { cache(device).reset(false); }
std::vector<SegmentRow> memory_snapshot(c10::DeviceIndex device, std::vector<MemoryEvent>* events) {
  return cache(device).snapshot(events);
}

std::pair<uint64_t, uint64_t> memory_info(c10::DeviceIndex device) {
  const auto budget = vulkan::Device::get(device).memory().budget();
  return {budget.free_bytes, budget.total_bytes};
}

vulkan::MemoryLayout memory_layout(c10::DeviceIndex device) { return vulkan::Device::get(device).memory().layout(); }

std::map<std::string, int64_t> memory_stats(c10::DeviceIndex device) {
  const DeviceStats stats = cache(device).stats();
  std::map<std::string, int64_t> out;
  auto put = [&](const std::string& name, const StatArray& array) {
    constexpr std::pair<const char*, StatType> kPools[] = {
        {"all", StatType::AGGREGATE}, {"small_pool", StatType::SMALL_POOL}, {"large_pool", StatType::LARGE_POOL}};
    for (auto [pool, type] : kPools) {
      const auto& s = array[static_cast<size_t>(type)];
      out[name + "." + pool + ".current"] = s.current;
      out[name + "." + pool + ".peak"] = s.peak;
      out[name + "." + pool + ".allocated"] = s.allocated;
      out[name + "." + pool + ".freed"] = s.freed;
    }
  };
  put("allocation", stats.allocation);
  put("segment", stats.segment);
  put("active", stats.active);
  put("inactive_split", stats.inactive_split);
  put("allocated_bytes", stats.allocated_bytes);
  put("reserved_bytes", stats.reserved_bytes);
  put("active_bytes", stats.active_bytes);
  put("inactive_split_bytes", stats.inactive_split_bytes);
  put("requested_bytes", stats.requested_bytes);
  out["num_alloc_retries"] = stats.num_alloc_retries;
  out["num_ooms"] = stats.num_ooms;
  out["num_device_alloc"] = stats.num_device_alloc;
  out["num_device_free"] = stats.num_device_free;
  return out;
}

void begin_private_pool(c10::DeviceIndex device, c10::MempoolId_t pool, c10::StreamId stream) {
  cache(device).begin_pool(pool, stream);
}
void end_private_pool(c10::DeviceIndex device, c10::StreamId stream) { cache(device).end_pool(stream); }
void release_private_pool(c10::DeviceIndex device, c10::MempoolId_t pool) { cache(device).release_pool(pool); }
bool is_of_pool(const c10::DataPtr& memory, c10::MempoolId_t pool) {
  if (memory.get_deleter() != &delete_block || memory.get_context() == nullptr) return false;
  return static_cast<Block*>(memory.get_context())->pool->id == pool;
}
uint64_t bytes_of_pool(c10::DeviceIndex device, c10::MempoolId_t pool) { return cache(device).pool_bytes(pool); }

}  // namespace aule::runtime
