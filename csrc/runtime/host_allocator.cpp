#include "runtime/host_allocator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/streams.h"
#include "stream/command_stream.h"
#include "vulkan/check.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

struct HostBlock {
  vulkan::Segment* segment;
  c10::DeviceIndex device;
  std::vector<stream::Marker> markers;  // work that still reads or writes it
};

uint64_t size_class(uint64_t bytes) {
  uint64_t size = 4096;
  while (size < bytes) size *= 2;
  return size;
}

void delete_host_block(void* context);

// Blocks of power-of-two sizes, kept by size; a block with work in flight waits in `busy_` until that has passed.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &delete_host_block, c10::DeviceType::CPU};
    check_not_forked();
    std::lock_guard lock(mutex_);
    reclaim();
    const c10::DeviceIndex device = current_device();
    const uint64_t size = size_class(bytes);
    HostBlock* block = nullptr;
    if (auto it = free_.find({device, size}); it != free_.end() && !it->second.empty()) {
      block = it->second.back();
      it->second.pop_back();
    } else {
      try {
        block =
            new HostBlock{vulkan::Device::get(device).memory().allocate(vulkan::MemoryKind::host, size), device, {}};
      } catch (const vulkan::OutOfMemory& error) {
        release_free();
        try {
          block =
              new HostBlock{vulkan::Device::get(device).memory().allocate(vulkan::MemoryKind::host, size), device, {}};
        } catch (const vulkan::OutOfMemory& again) {
          vulkan::raise(FailureKind::out_of_memory,
                        c10::str("aule: cannot allocate ", bytes, " bytes of pinned host memory: ", again.what()));
        }
      }
      stats_.allocations.increase(1);
      stats_.allocated_bytes.increase(size);
    }
    stats_.active_requests.increase(1);
    stats_.active_bytes.increase(size);
    return {block->segment->mapped, block, &delete_host_block, c10::DeviceType::CPU};
  }
  void copy_data(void* dst, const void* src, std::size_t bytes) const override { std::memcpy(dst, src, bytes); }

  bool record_event(void* pointer, void* context, c10::Stream stream) override {
    if (is_imported(pointer)) return true;  // whoever imported it waits before it goes
    std::lock_guard lock(mutex_);
    auto* block = find(pointer, context);
    if (block == nullptr) return false;
    block->markers.push_back(command_stream(stream).record(/*timing=*/false));
    return true;
  }
  void empty_cache() override {
    std::lock_guard lock(mutex_);
    reclaim();
    release_free();
  }
  at::HostStats get_stats() override {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    for_each_stat([](auto& s) { s.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    for_each_stat([](auto& s) { s.reset_peak(); });
  }

  void free(HostBlock* block) {
    std::lock_guard lock(mutex_);
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(block->segment->bytes);
    if (block->markers.empty())
      free_[{block->device, block->segment->bytes}].push_back(block);
    else
      busy_.push_back(block);
  }

 private:
  template <class F>
  void for_each_stat(F f) {
    std::lock_guard lock(mutex_);
    f(stats_.active_requests);
    f(stats_.active_bytes);
    f(stats_.allocations);
    f(stats_.allocated_bytes);
  }
  static const vulkan::Segment* segment_of(const void* pointer) {
    for (int i = 0; i < vulkan::device_count(); ++i) {
      if (!vulkan::device_created(i)) continue;
      if (const auto* segment = vulkan::Device::get(i).memory().find_host(pointer)) return segment;
    }
    return nullptr;
  }
  static bool is_imported(const void* pointer) {
    const auto* segment = segment_of(pointer);
    return segment != nullptr && segment->imported;
  }
  static HostBlock* find(void* pointer, void* context) {
    // PyTorch hands the context of the storage's DataPtr along when it has one.
    return segment_of(pointer) == nullptr ? nullptr : static_cast<HostBlock*>(context);
  }
  void reclaim() {
    for (size_t i = 0; i < busy_.size();) {
      HostBlock* block = busy_[i];
      const bool done = std::all_of(block->markers.begin(), block->markers.end(),
                                    [](auto& m) { return !m.stream->capturing() && m.stream->done(m.value); });
      if (!done) {
        ++i;
        continue;
      }
      block->markers.clear();
      free_[{block->device, block->segment->bytes}].push_back(block);
      busy_[i] = busy_.back();
      busy_.pop_back();
    }
  }
  void release_free() {
    for (auto& [key, blocks] : free_) {
      for (HostBlock* block : blocks) {
        stats_.allocations.decrease(1);
        stats_.allocated_bytes.decrease(block->segment->bytes);
        vulkan::Device::get(block->device).memory().free(block->segment);
        delete block;
      }
      blocks.clear();
    }
  }

  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, uint64_t>, std::vector<HostBlock*>> free_;
  std::vector<HostBlock*> busy_;
  at::HostStats stats_;
};

PinnedAllocator& pinned() {
  static auto* allocator = new PinnedAllocator;  // outlives every tensor
  return *allocator;
}

void delete_host_block(void* context) {
  if (context != nullptr && !in_bad_fork()) pinned().free(static_cast<HostBlock*>(context));
}

}  // namespace

at::HostAllocator* host_allocator() { return &pinned(); }

at::Tensor pinned_bytes(int64_t bytes, c10::Device device) {
  const c10::OptionalDeviceGuard guard(device);  // pinned memory belongs to the current device
  return at::detail::empty_generic({bytes}, host_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU), at::kByte,
                                   std::nullopt);
}

uint64_t pinned_address(const void* pointer, int device) {
  if (!vulkan::device_created(device)) return 0;
  const vulkan::Segment* segment = vulkan::Device::get(device).memory().find_host(pointer);
  if (segment == nullptr) return 0;
  return segment->address +
         static_cast<uint64_t>(static_cast<const char*>(pointer) - static_cast<const char*>(segment->mapped));
}

bool is_pinned(const void* pointer) {
  for (int i = 0; i < vulkan::device_count(); ++i)
    if (pinned_address(pointer, i) != 0) return true;
  return false;
}

std::optional<ImportedHost> ImportedHost::import(void* pointer, uint64_t bytes, int device) {
  vulkan::Segment* segment = vulkan::Device::get(device).memory().import_host(pointer, bytes);
  if (segment == nullptr) return std::nullopt;
  return ImportedHost(segment, device);
}

ImportedHost::~ImportedHost() {
  if (segment_ != nullptr && !in_bad_fork()) vulkan::Device::get(device_).memory().free(segment_);
}

uint64_t ImportedHost::address() const { return segment_->address; }

namespace {
[[maybe_unused]] const bool g_registered = [] {
  at::setHostAllocator(at::kPrivateUse1, host_allocator());
  return true;
}();
}  // namespace

}  // namespace aule::runtime
