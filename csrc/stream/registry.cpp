// The streams of the process, and operations on all streams of a device.
#include <algorithm>
#include <array>

#include "core/environment.h"
#include "core/per_device.h"
#include "core/queues.h"
#include "stream/errors.h"
#include "stream/stream_impl.h"

namespace aule::stream {
namespace {

constexpr int kPoolStreams = 32, kNormalStreams = 24;  // the last eight serve high priority
constexpr int64_t kPrivateStream = kPoolStreams + 1, kToDeviceStream = kPrivateStream + 1,
                  kToHostStream = kToDeviceStream + 1, kCaptureStream = kToHostStream + 1,
                  kCollectiveStream = kCaptureStream + 1, kLastStream = kCollectiveStream;

struct DeviceStreams {
  std::mutex mutex;
  std::array<std::atomic<CommandStream*>, kLastStream + 1> streams{};
  std::atomic<uint32_t> next_normal{0}, next_high{0};
  std::atomic<uint32_t> created{0};
  std::atomic<uint64_t> uploads{0};           // submitted by any stream
  std::atomic<uint32_t> deferred_uploads{0};  // streams that have some
};
DeviceStreams& streams_of(int device) {
  static const PerDevice<DeviceStreams> all;
  if (device < 0 || device >= kMaxDevices) throw vulkan::NoDevice("aule:" + std::to_string(device) + " does not exist");
  return all[device];
}

}  // namespace

DeviceCost& DeviceCost::of(const DeviceImpl& d) {
  static const PerDevice<DeviceCost> all;
  return all[d.index];
}

CommandStream& CommandStream::get(int device, int64_t id) {
  DeviceStreams& all = streams_of(device);
  if (id < 0 || id > kLastStream) throw vulkan::Error("there is no aule stream " + std::to_string(id));
  auto& slot = all.streams[static_cast<size_t>(id)];
  if (CommandStream* stream = slot.load(std::memory_order_acquire)) return *stream;
  vulkan::Device& owner = vulkan::Device::get(device);
  std::lock_guard lock(all.mutex);
  if (CommandStream* stream = slot.load(std::memory_order_acquire)) return *stream;
  auto impl = std::make_unique<StreamImpl>();
  impl->device = &owner;
  impl->d = &owner.impl();
  impl->id = id;
  impl->copies_only = id == kToDeviceStream || id == kToHostStream;
  const auto& transfer_queues = impl->d->transfer_queues;
  if (impl->copies_only && !transfer_queues.empty()) {
    const auto count = static_cast<uint32_t>(transfer_queues.size());
    impl->queue = transfer_queues[queue_of_transfers(count, id == kToHostStream)].get();
    impl->family = impl->d->transfer_family;
  } else {
    const bool high = has_high_priority(id);
    const auto turn = static_cast<uint32_t>(high ? id - 1 - kNormalStreams : id);
    const auto count = static_cast<uint32_t>(impl->d->queues.size());
    impl->queue = impl->d->queues[queue_of_stream(count, high, turn)].get();
    impl->family = impl->d->queue_family;
  }
  impl->cost = &DeviceCost::of(*impl->d);
  impl->deferred_uploads = &all.deferred_uploads;
  impl->budget_ns = std::max(1e-3, environment().time_budget_ms) * 1e6;
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  VK_CHECK(impl->d->vk.vkCreateSemaphore(impl->d->handle, &info, nullptr, &impl->timeline));
  auto* stream = new CommandStream(std::move(impl));
  slot.store(stream, std::memory_order_release);
  // A stream that is alone submits uploads with its other work. From the second stream on, they go out at once.
  if (all.created.fetch_add(1) == 1) {
    for (auto& other : all.streams) {
      CommandStream* first = other.load(std::memory_order_acquire);
      if (first == nullptr || first == stream) continue;
      std::lock_guard first_lock(first->impl_->mutex);
      first->impl_->upload_recorded();
    }
  }
  return *stream;
}

CommandStream* CommandStream::existing(int device, int64_t id) noexcept {
  if (device < 0 || device >= kMaxDevices || id < 0 || id > kLastStream) return nullptr;
  return streams_of(device).streams[static_cast<size_t>(id)].load(std::memory_order_acquire);
}

void StreamImpl::upload_recorded() {
  DeviceStreams& all = streams_of(d->index);
  if (all.created.load() < 2) return submit_if_due();
  if (!deferred.empty()) {  // the next call on another stream waits for them
    if (!upload_deferred.exchange(true)) all.deferred_uploads.fetch_add(1);
    return;
  }
  uploaded.store(flush(), std::memory_order_release);
  all.uploads.fetch_add(1);
}

void StreamImpl::upload_submitted() {
  if (!upload_deferred.load(std::memory_order_relaxed)) return;
  DeviceStreams& all = streams_of(d->index);
  uploaded.store(submitted, std::memory_order_release);
  all.uploads.fetch_add(1);
  upload_deferred.store(false);
  all.deferred_uploads.fetch_sub(1);
}

void StreamImpl::await_uploads() {
  if (deferred_uploads->load(std::memory_order_acquire) == 0) return;
  for (auto& slot : streams_of(d->index).streams) {
    CommandStream* stream = slot.load(std::memory_order_acquire);
    if (stream == nullptr || stream->impl_.get() == this || !stream->impl_->upload_deferred.load()) continue;
    std::lock_guard lock(stream->impl_->mutex);
    stream->impl_->flush();
  }
}

void StreamImpl::add_upload_waits(std::vector<VkSemaphoreSubmitInfo>& waits) {
  DeviceStreams& all = streams_of(d->index);
  const uint64_t uploads = all.uploads.load();
  if (uploads == uploads_awaited) return;
  uploads_awaited = uploads;
  for (auto& slot : all.streams) {
    const CommandStream* stream = slot.load(std::memory_order_acquire);
    if (stream == nullptr || stream->impl_.get() == this) continue;
    const StreamImpl& other = *stream->impl_;
    const uint64_t value = other.uploaded.load(std::memory_order_acquire);
    if (value <= other.completed.load(std::memory_order_acquire)) continue;
    add_wait(waits, other.timeline, value);
  }
}

bool StreamImpl::other_uploads_done(bool wait) {
  DeviceStreams& all = streams_of(d->index);
  const uint64_t uploads = all.uploads.load();
  if (uploads_done.load(std::memory_order_acquire) >= uploads) return true;
  for (auto& slot : all.streams) {
    const CommandStream* stream = slot.load(std::memory_order_acquire);
    if (stream == nullptr || stream->impl_.get() == this) continue;
    StreamImpl& other = *stream->impl_;
    const uint64_t value = other.uploaded.load(std::memory_order_acquire);
    if (value <= other.completed.load(std::memory_order_acquire) || other.poll() >= value) continue;
    if (!wait) return false;
    other.wait_until(value);
  }
  uploads_done.store(uploads, std::memory_order_release);
  return true;
}

int64_t CommandStream::next_pool_id(int device, int priority) {
  DeviceStreams& all = streams_of(device);
  if (priority < 0) return 1 + kNormalStreams + all.next_high.fetch_add(1) % (kPoolStreams - kNormalStreams);
  return 1 + all.next_normal.fetch_add(1) % kNormalStreams;
}

int64_t CommandStream::capture_id() noexcept { return kCaptureStream; }
int64_t CommandStream::private_id() noexcept { return kPrivateStream; }
int64_t CommandStream::collective_id() noexcept { return kCollectiveStream; }
int64_t CommandStream::transfer_id(bool to_host) noexcept { return to_host ? kToHostStream : kToDeviceStream; }
int64_t CommandStream::last_id() noexcept { return kLastStream; }

bool CommandStream::copies_beside_kernels(int device) {
  return vulkan::Device::get(device).impl().copies_beside_kernels();
}

bool CommandStream::has_high_priority(int64_t id) noexcept { return id > kNormalStreams && id <= kPoolStreams; }

void synchronize_device(int device, bool arrivals) {
  if (!vulkan::device_created(device)) return;
  std::vector<std::pair<CommandStream*, uint64_t>> values;
  for (auto& slot : streams_of(device).streams) {
    CommandStream* s = slot.load(std::memory_order_acquire);
    if (s == nullptr) continue;
    const bool all = arrivals || s->arrived();
    if (all) s->await_arrivals();
    if (all) s->await_pipelines(UINT64_MAX);
    std::lock_guard lock(s->impl_->mutex);
    if (all) s->impl_->d->check_alive();
    values.emplace_back(s, all ? s->impl_->flush() : s->impl_->submitted);
  }
  for (const auto& [stream, value] : values) stream->wait_quietly(value);
  for (const auto& [stream, value] : values) stream->raise_failure();
  raise_recorded_error(device);  // after the waits for all streams
  vulkan::Device::get(device).impl().check_alive();
}

void reclaim_finished(int device) {
  for (auto& slot : streams_of(device).streams) {
    CommandStream* stream = slot.load(std::memory_order_acquire);
    if (stream == nullptr) continue;
    StreamImpl& s = StreamImpl::of(*stream);
    std::lock_guard lock(s.mutex);
    s.reclaim();
  }
}

void wait_for_submitted(int device) {
  for (auto& slot : streams_of(device).streams) {
    CommandStream* stream = slot.load(std::memory_order_acquire);
    if (stream == nullptr) continue;
    StreamImpl& s = StreamImpl::of(*stream);
    std::unique_lock lock(s.mutex);
    const uint64_t submitted = s.submitted;
    lock.unlock();
    s.wait_until(submitted);
  }
}

void raise_device_errors(int device) {
  if (vulkan::device_created(device)) raise_recorded_error(device);
}

}  // namespace aule::stream
