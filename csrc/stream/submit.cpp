// Submission of recorded work to the queue, and waits for its end.
#include <algorithm>
#include <chrono>
#include <thread>

#include "core/environment.h"
#include "stream/interrupts.h"
#include "stream/stream_impl.h"

namespace aule::stream {
namespace {

// A submission costs the host 6 us and the GPU up to 30 us (H200, driver 580.159). So batches start small, which gives
// the GPU work at once, and grow while work keeps coming. A busy GPU lets them grow to the largest limit: a GPT-2
// step then took 50.8 ms instead of 54.3.
constexpr uint32_t kFirstBatch = 4, kLargestBatch = 512;
constexpr float kEnoughWorkNs = 200e3f;  // the GPU is busy long enough to hide a submit
constexpr float kMostWorkNs = 4e6f;      // a batch of this much work is submitted
// The two timestamps around a batch cost the GPU some microseconds, so only some batches of known work are timed.
constexpr float kWorthTimingNs = 1e6f;
constexpr uint32_t kTimeEvery = 8;
// vkWaitSemaphores returns some 0.4 ms after the work has ended (NVIDIA driver 580.159). So the host polls, as CUDA
// does. After 200 us it yields its core between two polls, and after 20 ms it sleeps.
constexpr auto kPollTime = std::chrono::microseconds(200), kYieldTime = std::chrono::microseconds(20000);
// A wait looks this often whether the device was lost, or whether a signal has come.
constexpr uint64_t kAliveNs = 1'000'000'000, kSignalNs = 50'000'000;

long lost_submission() { return static_cast<long>(environment().inject_device_lost); }

}  // namespace

Batch& StreamImpl::target() {
  if (capture) {
    if (!capture->batches.empty()) return *capture->batches.back();
    Batch* b = make_batch();
    capture->batches.push_back(b);
    begin_batch(*d, *b, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, false);
    return *b;
  }
  return current ? *current : begin(time_next || begun % kTimeEvery == 0);
}

Batch& StreamImpl::begin(bool timed) {
  // Two batches take turns where the host waits for each: one is recycled while the device has the other.
  if (spare.empty() && in_flight.size() > 1) reclaim();
  Batch* b;
  if (spare.empty()) {
    b = make_batch();
  } else {
    b = spare.back();
    spare.pop_back();
  }
  begin_batch(*d, *b, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, timed);
  if (tracing()) begin_trace(*d, *b);
  ++begun;
  time_next = true;
  if (submit_after == 0) submit_after = kFirstBatch;
  current = b;
  return *b;
}

void StreamImpl::split_before(float predicted_ns) {
  if (capture) {
    if (capture->batches.empty()) return;
    Batch& b = *capture->batches.back();
    if (b.commands == 0 || (b.predicted_ns + predicted_ns <= budget_ns && b.commands < 1024)) return;
    end_batch(*d, b);
    Batch* next = make_batch();
    capture->batches.push_back(next);
    begin_batch(*d, *next, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, false);
    return;
  }
  if (current && current->commands > 0 && current->predicted_ns + predicted_ns > budget_ns) submit_current();
}

void StreamImpl::time_if_needed(bool unknown, float predicted_ns) {
  if (capture) return;
  if (!current)
    time_next = unknown || predicted_ns >= kWorthTimingNs;
  else if (unknown && !current->timed)
    submit_current();  // a kernel without an estimate is timed at once, because the time budget needs the estimate
}

bool StreamImpl::busy() {
  poll();
  const uint64_t done = completed.load(std::memory_order_relaxed);
  float ns = 0;
  bool front = true;  // the progress of the batch that runs now is unknown
  for (const Batch* b : in_flight) {
    if (b->value <= done) continue;
    if (!front) ns += b->predicted_ns;
    front = false;
  }
  return ns >= kEnoughWorkNs;
}

void StreamImpl::submit_if_due() {
  if (capture || !current) return;
  const uint32_t n = current->commands;
  const float ns = current->predicted_ns;
  if (n >= submit_after || ns >= kEnoughWorkNs) {
    const auto full = [&] { return in_flight.size() >= max_in_flight && load().batches >= max_in_flight; };
    if (n < kLargestBatch && ns < kMostWorkNs && (busy() || full())) return;
    if (n >= submit_after) submit_after = std::min(submit_after * 2, kLargestBatch);
    submit_current();
  } else if (n >= kFirstBatch && n % 8 == 0 && poll() == submitted) {
    submit_current();  // the GPU has no work left
  }
}

uint64_t StreamImpl::flush() {
  record_deferred(/*wait=*/true);
  const uint64_t value = submit_current();
  upload_submitted();
  return value;
}

uint64_t StreamImpl::submit_current() {
  if (capture || !current || awaits.load(std::memory_order_acquire)) return submitted;
  d->check_alive();
  Batch* b = current;
  end_batch(*d, *b);
  current = nullptr;
  in_flight.push_back(b);
  submit(*b);
  reclaim();
  return submitted;
}

uint64_t StreamImpl::behind() const {
  return in_flight.size() > max_in_flight ? in_flight[in_flight.size() - max_in_flight - 1]->value : 0;
}

StreamLoad StreamImpl::load() {
  StreamLoad load{0, deferred.size() + (current ? current->commands : 0), max_in_flight};
  const uint64_t done = poll();
  for (const Batch* b : in_flight) {
    if (b->value <= done) continue;
    ++load.batches;
    load.commands += b->commands;
  }
  return load;
}

uint64_t StreamImpl::submit(Batch& b) {
  const HostSpan span("aule submit");
  b.value = std::max(submitted + 1, b.least_value);
  VkCommandBufferSubmitInfo cmd{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
  cmd.commandBuffer = b.cmd;
  VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
  signal.semaphore = timeline;
  signal.value = b.value;
  signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  std::vector<VkSemaphoreSubmitInfo> waits = b.waits;  // a copy: a graph's batch is submitted again
  add_upload_waits(waits);
  VkSubmitInfo2 info{VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
  info.waitSemaphoreInfoCount = static_cast<uint32_t>(waits.size());
  info.pWaitSemaphoreInfos = waits.data();
  info.commandBufferInfoCount = 1;
  info.pCommandBufferInfos = &cmd;
  info.signalSemaphoreInfoCount = 1;
  info.pSignalSemaphoreInfos = &signal;

  static std::atomic<long> submissions{0};
  bool lost = d->lose_next_submit.load(std::memory_order_relaxed);
  if (lost_submission() > 0 && submissions.fetch_add(1) + 1 >= lost_submission()) {
    d->lose_next_submit.store(true);
    lost = true;
  }
  VkResult result;
  {
    std::lock_guard lock(queue->mutex);
    if (lost) d->vk.vkQueueWaitIdle(queue->handle);  // an injected loss: running work must end before its memory does
    result = lost ? VK_ERROR_DEVICE_LOST : d->vk.vkQueueSubmit2(queue->handle, 1, &info, VK_NULL_HANDLE);
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
      d->vk.vkQueueWaitIdle(queue->handle);  // the driver then frees its memory of earlier submissions
      result = d->vk.vkQueueSubmit2(queue->handle, 1, &info, VK_NULL_HANDLE);
    }
  }
  if (result != VK_SUCCESS) {
    // Results of work that cannot be submitted would be wrong, so the device counts as lost, whatever the cause.
    d->mark_lost(result == VK_ERROR_DEVICE_LOST ? "vkQueueSubmit2" : vulkan::result_name(result), names_in_flight());
    d->throw_lost();
  }
  submitted = b.value;
  return submitted;
}

void StreamImpl::reclaim() {
  if (in_flight.empty()) return;
  uint64_t done = poll();
  std::erase_if(abandoned, [&](const auto& chunk) {
    if (chunk.first > done) return false;
    give_chunk(*d, chunk.second);
    return true;
  });
  while (!in_flight.empty() && in_flight.front()->value <= done) {
    Batch* b = in_flight.front();
    in_flight.pop_front();
    uint64_t ticks[2] = {};
    if (!b->work.empty() && read_timing(*d, *b, ticks))
      cost->learn(b->work, static_cast<double>(ticks[1] - ticks[0]) * d->profile.timestamp_period_ns);
    if (b->trace) collect_trace(*this, *b);
    recycle_batch(*d, *b);
    spare.push_back(b);
  }
}

uint64_t StreamImpl::poll() {
  uint64_t value = 0;
  AULE_STREAM_CHECK(*d, d->vk.vkGetSemaphoreCounterValue(d->handle, timeline, &value), std::string());
  uint64_t seen = completed.load(std::memory_order_relaxed);
  while (seen < value && !completed.compare_exchange_weak(seen, value)) {
  }
  return std::max(seen, value);
}

bool StreamImpl::sleep_for(uint64_t value, uint64_t ns) {
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline;
  info.pValues = &value;
  d->check_alive();
  const VkResult result = d->vk.vkWaitSemaphores(d->handle, &info, ns);
  if (result == VK_TIMEOUT) return false;
  if (result != VK_SUCCESS) d->fail(result, "vkWaitSemaphores", __FILE__, __LINE__, names_in_flight());
  poll();
  return true;
}

bool StreamImpl::poll_until(uint64_t value) {
  if (completed.load(std::memory_order_acquire) >= value || poll() >= value) return true;
  if (!d->profile.is_software()) {  // a software device computes on the core that would poll
    const auto start = std::chrono::steady_clock::now();
    for (auto now = start; now < start + kYieldTime; now = std::chrono::steady_clock::now()) {
      for (int i = 0; i < 8; ++i) {
        if (poll() >= value) return true;
      }
      if (now > start + kPollTime) std::this_thread::yield();
    }
  }
  return false;
}

void StreamImpl::sleep_until(uint64_t value) {
  if (poll_until(value)) return;
  while (!sleep_for(value, kAliveNs)) {
  }
}

void StreamImpl::wait_until(uint64_t value) {
  if (poll_until(value)) return;
  while (!sleep_for(value, kSignalNs)) check_interrupts();
}

void StreamImpl::let_device_catch_up(uint64_t value) {
  if (value == 0 || poll_until(value)) return;
  while (!sleep_for(value, kSignalNs)) {
    if (interrupt_pending()) return;
  }
}

std::vector<std::string> StreamImpl::kernels_in_flight() const {
  std::vector<std::string> names;
  auto add = [&](const std::string& label) {
    if (names.size() < 24 && std::find(names.begin(), names.end(), label) == names.end()) names.push_back(label);
  };
  auto take = [&](const Batch* b) {
    for (const vulkan::Pipeline* p : b->pipelines) add(p->label);
  };
  for (const Batch* b : in_flight) take(b);
  if (current) take(current);
  for (const Deferred& later : deferred) {
    if (later.pipeline != nullptr) add(later.pipeline->label);
  }
  return names;
}

std::string StreamImpl::names_in_flight() const {
  std::string text;
  for (const std::string& name : kernels_in_flight()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool StreamImpl::is_idle() {
  if (current || !deferred.empty()) return false;
  return completed.load(std::memory_order_acquire) >= submitted || poll() >= submitted;
}

}  // namespace aule::stream
