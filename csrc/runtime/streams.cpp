#include "runtime/streams.h"

#include <c10/util/Exception.h>
#ifndef _WIN32
#include <pthread.h>
#endif

#include <array>
#include <atomic>
#include <mutex>

#include "core/per_device.h"
#include "stream/command_stream.h"
#include "vulkan/device.h"
#include "vulkan/physical.h"

namespace aule::runtime {
namespace {

struct ThreadState {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kMaxDevices> stream{};  // 0: the default stream
};
thread_local ThreadState t_state;

std::atomic<bool> g_forked{false};
#ifndef _WIN32
std::once_flag g_fork_handler;
#endif

c10::DeviceIndex resolve(c10::DeviceIndex device) { return device < 0 ? t_state.device : device; }

void check_index(c10::DeviceIndex device) {
  const int count = vulkan::device_count();
  if (count == 0) vulkan::raise_unavailable("torch_aule: no Vulkan device: ");
  TORCH_CHECK(device >= 0 && device < count && device < kMaxDevices, "torch_aule: invalid device index ",
              static_cast<int>(device), ": this process sees ", count, " aule device(s)");
}

}  // namespace

void check_not_forked() {
  TORCH_CHECK(
      !g_forked.load(std::memory_order_relaxed),
      "Cannot use aule in a forked subprocess after the parent used the device: a Vulkan device does not survive "
      "fork(). Use the 'spawn' start method (torch.multiprocessing.set_start_method('spawn')).");
#ifndef _WIN32  // Windows starts processes, it does not fork them
  // A child is only spoilt when the parent had created a device by then.
  std::call_once(g_fork_handler, [] {
    pthread_atfork(nullptr, nullptr, [] {
      for (int i = 0; i < kMaxDevices; ++i) {
        if (vulkan::device_created(i)) g_forked = true;
      }
    });
  });
#endif
}

bool in_bad_fork() noexcept { return g_forked.load(std::memory_order_relaxed); }

c10::DeviceIndex current_device() noexcept { return t_state.device; }

void set_device(c10::DeviceIndex device) {
  if (device == t_state.device) return;
  check_index(device);
  t_state.device = device;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  const c10::DeviceIndex before = t_state.device;
  if (device >= 0) set_device(device);
  return before;
}

c10::Stream current_c10_stream(c10::DeviceIndex device) {
  device = resolve(device);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device),
                     t_state.stream.at(static_cast<size_t>(device)));
}

c10::Stream exchange_stream(c10::Stream stream) {
  const c10::Stream before = current_c10_stream(stream.device_index());
  if (before.id() != stream.id()) submit_recorded(before.device_index());
  t_state.stream.at(static_cast<size_t>(resolve(stream.device_index()))) = stream.id();
  return before;
}

void submit_recorded(c10::DeviceIndex device) noexcept {
  if (in_bad_fork()) return;
  device = resolve(device);
  auto* stream = stream::CommandStream::existing(device, t_state.stream.at(static_cast<size_t>(device)));
  if (stream != nullptr) stream->submit_recorded();
}

void finish_current_stream(c10::DeviceIndex device) { current_stream(device).synchronize(); }

namespace {
c10::Stream stream_of(c10::DeviceIndex device, int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, resolve(device)), id);
}
}  // namespace

c10::Stream private_stream(c10::DeviceIndex device) { return stream_of(device, stream::CommandStream::private_id()); }

c10::Stream collective_stream(c10::DeviceIndex device) {
  return stream_of(device, stream::CommandStream::collective_id());
}

c10::Stream transfer_stream(c10::DeviceIndex device, bool to_host) {
  return stream_of(device, stream::CommandStream::transfer_id(to_host));
}

bool copies_beside_kernels(c10::DeviceIndex device) {
  return stream::CommandStream::copies_beside_kernels(resolve(device));
}

bool wait_later(c10::Stream stream, std::function<bool()> ready, std::function<void()> arrive) {
  stream::CommandStream& waits = command_stream(stream);
  if (stream.id() == stream::CommandStream::kDefaultId || waits.capturing()) return false;
  waits.wait_later({std::move(ready), std::move(arrive)});
  return true;
}

stream::CommandStream& command_stream(c10::Stream stream) {
  check_not_forked();
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
              "torch_aule: expected a stream of device aule, got ", stream);
  return stream::CommandStream::get(resolve(stream.device_index()), stream.id());
}

stream::CommandStream& current_stream(c10::DeviceIndex device) {
  // The last stream handed out, so that a chain of small ops does not look it up again.
  thread_local struct {
    c10::DeviceIndex device = -1;
    c10::StreamId id = 0;
    stream::CommandStream* stream = nullptr;
  } last;
  device = resolve(device);
  const c10::StreamId id = t_state.stream.at(static_cast<size_t>(device));
  if (last.stream != nullptr && last.device == device && last.id == id && !in_bad_fork()) return *last.stream;
  if (last.stream == nullptr) check_index(device);
  last.stream = &command_stream(current_c10_stream(device));
  last.device = device;
  last.id = id;
  return *last.stream;
}

int64_t capture_stream_id() { return stream::CommandStream::capture_id(); }

int highest_stream_priority(c10::DeviceIndex device) {
  device = resolve(device);
  check_index(device);
  return vulkan::device_has_priorities(device) ? -1 : 0;
}

int stream_priority(c10::Stream stream) {
  return stream::CommandStream::has_high_priority(stream.id()) ? highest_stream_priority(stream.device_index()) : 0;
}

std::array<uint64_t, 3> stream_load(c10::Stream stream) {
  const auto load = command_stream(stream).load();
  return {load.batches, load.commands, load.limit};
}

void limit_stream(c10::Stream stream, uint64_t batches) {
  TORCH_CHECK_VALUE(batches > 0, "set_in_flight_limit: expected batches of at least 1, but got 0");
  command_stream(stream).limit_in_flight(batches);
}

bool is_capturing(c10::DeviceIndex device) { return current_stream(device).capturing(); }

}  // namespace aule::runtime
