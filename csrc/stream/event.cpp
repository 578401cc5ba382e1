// Markers: points in a stream's order, with or without a timestamp.
#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>

#include "core/per_device.h"
#include "stream/interrupts.h"
#include "stream/stream_impl.h"

namespace aule::stream {
namespace {

constexpr int32_t kSlotsPerPool = 256;

// Timestamp queries of one device. The device may still write a slot that was given back, so the slot is reused only
// after its stream has passed the marker.
struct Slots {
  struct Resting {
    int32_t slot;
    const StreamImpl* stream;
    uint64_t value;
  };
  std::mutex mutex;
  std::vector<VkQueryPool> pools;
  std::vector<int32_t> free;
  std::vector<Resting> resting;
};
Slots& slots_of(const DeviceImpl& d) {
  static const PerDevice<Slots> all;
  return all[d.index];
}

int32_t take_slot(DeviceImpl& d) {
  Slots& s = slots_of(d);
  std::lock_guard lock(s.mutex);
  if (s.free.empty()) {
    std::erase_if(s.resting, [&](const Slots::Resting& r) {
      if (r.stream->completed.load() < r.value) return false;
      s.free.push_back(r.slot);
      return true;
    });
  }
  if (s.free.empty()) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = kSlotsPerPool;
    VkQueryPool pool = VK_NULL_HANDLE;
    VK_CHECK(d.vk.vkCreateQueryPool(d.handle, &info, nullptr, &pool));
    int32_t base = static_cast<int32_t>(s.pools.size()) * kSlotsPerPool;
    s.pools.push_back(pool);
    for (int32_t i = kSlotsPerPool; i-- > 0;) s.free.push_back(base + i);
  }
  int32_t slot = s.free.back();
  s.free.pop_back();
  return slot;
}

VkQueryPool pool_of(DeviceImpl& d, int32_t slot) {
  Slots& s = slots_of(d);
  std::lock_guard lock(s.mutex);
  return s.pools[static_cast<size_t>(slot / kSlotsPerPool)];
}

}  // namespace

void StreamImpl::timestamp_now(int32_t slot) {
  const VkQueryPool pool = pool_of(*d, slot);
  const auto query = static_cast<uint32_t>(slot % kSlotsPerPool);
  Batch& b = target();
  d->vk.vkCmdResetQueryPool(b.cmd, pool, query, 1);
  d->vk.vkCmdWriteTimestamp2(b.cmd, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, pool, query);
  ++b.commands;
}

void StreamImpl::wait_now(VkSemaphore of, uint64_t value) {
  if (current && current->commands > 0) submit_current();  // commands recorded before need not wait
  add_wait(target().waits, of, value);
}

Marker CommandStream::record(bool timing, bool submit) {
  if (timing) await_arrivals();
  StreamImpl& s = *impl_;
  std::unique_lock lock(s.mutex);
  s.d->check_alive();
  Marker marker{this, 0, -1};
  if (timing && !s.capture && !s.copies_only && s.d->timestamp_bits != 0 && s.d->profile.timestamp_period_ns > 0) {
    marker.timestamp = take_slot(*s.d);
    if (s.must_defer())
      s.defer(Deferred::What::timestamp).slot = marker.timestamp;
    else
      s.timestamp_now(marker.timestamp);
  }
  if (!s.deferred.empty()) s.record_deferred(/*wait=*/false);
  marker.value = s.point();
  // Deferred commands are submitted by whoever asks for the marker.
  if (!submit || timing || !s.deferred.empty() || !s.current || s.current->commands == 0) return marker;
  s.flush();
  const uint64_t behind = s.behind();
  lock.unlock();
  s.let_device_catch_up(behind);
  return marker;
}

void CommandStream::wait_for(const Marker& marker) {
  if (!marker.stream || marker.value == 0 || marker.stream == this) return;
  StreamImpl& producer = *marker.stream->impl_;
  marker.stream->await_arrivals_of(marker.value);
  if (marker.stream->submit_until(marker.value)) return;
  StreamImpl& s = *impl_;
  if (producer.d != s.d) {  // a timeline semaphore belongs to one device, so the host waits
    marker.stream->wait(marker.value);
    return;
  }
  std::lock_guard lock(s.mutex);
  s.d->check_alive();
  s.refuse_capture("waiting for another stream");
  if (!s.must_defer()) return s.wait_now(producer.timeline, marker.value);
  Deferred& later = s.defer(Deferred::What::wait);
  later.timeline = producer.timeline;
  later.value = marker.value;
}

void CommandStream::wait_later(Arrival arrival) {
  await_arrivals();
  StreamImpl& s = *impl_;
  {
    std::lock_guard arrivals_lock(s.arrivals_mutex);
    std::lock_guard lock(s.mutex);
    s.d->check_alive();
    s.refuse_capture("waiting for another thread");
    s.flush();   // what has a marker already does not wait
    s.target();  // which signals the markers to come
    s.arrivals.push_back(std::move(arrival));
    s.awaits.store(true, std::memory_order_release);
  }
  s.arrivals_changed.notify_all();
}

void CommandStream::await_arrivals() { await_arrivals_of(std::numeric_limits<uint64_t>::max()); }

void CommandStream::await_arrivals_of(uint64_t value) {
  StreamImpl& s = *impl_;
  s.await_uploads();
  if (!s.awaits.load(std::memory_order_acquire)) return;
  wait_unlocked([&] {
    std::unique_lock arrivals_lock(s.arrivals_mutex);
    while (s.awaits.load(std::memory_order_relaxed)) {
      {
        std::lock_guard lock(s.mutex);
        if (value <= s.submitted) return;
      }
      if (s.arriving) {
        s.arrivals_changed.wait(arrivals_lock);
        continue;
      }
      std::optional<Arrival> arrival = std::move(s.arrivals.front());
      s.arrivals.pop_front();
      s.arriving = true;
      arrivals_lock.unlock();
      std::exception_ptr error;
      try {
        arrival->arrive();
      } catch (...) {
        error = std::current_exception();
      }
      arrival.reset();  // what it holds may need locks
      arrivals_lock.lock();
      s.arriving = false;
      s.awaits.store(!s.arrivals.empty(), std::memory_order_release);
      s.arrivals_changed.notify_all();
      if (error) std::rethrow_exception(error);
    }
  });
}

bool CommandStream::arrived() const {
  const StreamImpl& s = *impl_;
  if (!s.awaits.load(std::memory_order_acquire)) return true;
  std::lock_guard lock(s.arrivals_mutex);
  return !s.arriving && std::all_of(s.arrivals.begin(), s.arrivals.end(), [](const Arrival& a) { return a.ready(); });
}

double CommandStream::elapsed_ms(const Marker& start, const Marker& end) {
  if (!start.stream || !end.stream || start.timestamp < 0 || end.timestamp < 0) {
    throw vulkan::Error("elapsed time needs two recorded events with timing enabled, on a device with timestamps");
  }
  if (start.stream->impl_->d != end.stream->impl_->d) throw vulkan::Error("elapsed time between events of two devices");
  start.stream->wait(start.value);
  end.stream->wait(end.value);
  DeviceImpl& d = *start.stream->impl_->d;
  // A software driver waits for all work of the device below, where no signal ends the wait.
  if (d.profile.is_software()) wait_for_submitted(d.index);
  uint64_t ticks[2] = {};
  const Marker* markers[2] = {&start, &end};
  for (int i = 0; i < 2; ++i) {
    int32_t slot = markers[i]->timestamp;
    VK_CHECK(d.vk.vkGetQueryPoolResults(d.handle, pool_of(d, slot), static_cast<uint32_t>(slot % kSlotsPerPool), 1,
                                        sizeof ticks[i], &ticks[i], sizeof ticks[i],
                                        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
  }
  uint32_t bits = d.timestamp_bits;
  uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  uint64_t delta = (ticks[1] - ticks[0]) & mask;  // the counter may wrap
  double sign = 1;
  if (delta > mask / 2) {
    delta = (mask - delta) + 1;
    sign = -1;
  }
  return sign * static_cast<double>(delta) * d.profile.timestamp_period_ns * 1e-6;
}

void CommandStream::release(Marker& marker) {
  if (marker.stream && marker.timestamp >= 0) {
    Slots& s = slots_of(*marker.stream->impl_->d);
    std::lock_guard lock(s.mutex);
    s.resting.push_back({marker.timestamp, marker.stream->impl_.get(), marker.value});
  }
  marker = Marker{};
}

}  // namespace aule::stream
