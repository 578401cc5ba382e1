#include "stream/trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/per_device.h"
#include "stream/stream_impl.h"
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace aule::stream {
namespace {

constexpr uint32_t kStamps = 1024;  // of a batch, which has half as many commands or little more

// The same moment by a device's clock and by the host's, Unix time.
struct Moment {
  uint64_t ticks = 0;
  int64_t unix_ns = 0, error_ns = 0;
};

struct DeviceTrace {
  std::mutex mutex;
  std::vector<VkQueryPool> pools;  // that no batch has
  Moment start;
  bool calibrated = false, watched = false;
};
DeviceTrace& trace_of(int device) {
  static const PerDevice<DeviceTrace> all;
  return all[device];
}

struct Collected {
  std::mutex mutex;
  Trace trace;
};
Collected& collected() {
  static auto* const one = new Collected;  // threads may end after the process's statics
  return *one;
}

int64_t since_epoch(auto time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

int64_t thread_number() {
#ifdef __linux__
  return static_cast<int64_t>(::syscall(SYS_gettid));
#else
  return static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id()) & 0x7fffffff);
#endif
}

uint64_t mask_of(const DeviceImpl& d) { return d.timestamp_bits >= 64 ? ~0ull : (1ull << d.timestamp_bits) - 1; }

#ifdef _WIN32
bool ask_driver(DeviceImpl&, Moment&) { return false; }  // the driver pairs another clock there
#else
// The driver's own pair, the best of some.
bool ask_driver(DeviceImpl& d, Moment& moment) {
  if (!d.profile.calibrated_timestamps || d.vk.vkGetCalibratedTimestampsEXT == nullptr) return false;
  VkCalibratedTimestampInfoEXT infos[2] = {{VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT},
                                           {VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT}};
  infos[0].timeDomain = VK_TIME_DOMAIN_DEVICE_EXT;
  infos[1].timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
  moment.error_ns = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    uint64_t times[2] = {}, deviation = 0;
    if (d.vk.vkGetCalibratedTimestampsEXT(d.handle, 2, infos, times, &deviation) != VK_SUCCESS) return false;
    if (static_cast<int64_t>(deviation) >= moment.error_ns) continue;
    const int64_t steady = since_epoch(std::chrono::steady_clock::now()),
                  wall = since_epoch(std::chrono::system_clock::now());
    moment = {times[0] & mask_of(d), static_cast<int64_t>(times[1]) + wall - steady, static_cast<int64_t>(deviation)};
  }
  return true;
}
#endif

// A submission of nothing but a timestamp, between two looks at the host's clock.
Moment submit_moment(int device) {
  StreamImpl& s = StreamImpl::of(CommandStream::get(device, CommandStream::private_id()));
  Moment best{.error_ns = INT64_MAX};
  for (int i = 0; i < 5; ++i) {
    const int64_t before = since_epoch(std::chrono::system_clock::now());
    uint64_t value;
    {
      std::lock_guard lock(s.mutex);
      s.target();
      value = s.flush();
    }
    s.sleep_until(value);
    const int64_t after = since_epoch(std::chrono::system_clock::now());
    std::lock_guard lock(s.mutex);
    s.reclaim();
    if ((after - before) / 2 < best.error_ns)
      best = {s.traced_ticks, before + (after - before) / 2, (after - before) / 2};
  }
  return best;
}

Moment moment_of(DeviceImpl& d, bool& calibrated) {
  Moment moment;
  calibrated = ask_driver(d, moment);
  return calibrated ? moment : submit_moment(d.index);
}

bool has_timestamps(const DeviceImpl& d) { return d.timestamp_bits != 0 && d.profile.timestamp_period_ns > 0; }

template <class F>
void for_each_device(F f) {
  for (int device = 0; device < kMaxDevices; ++device) {
    if (vulkan::device_created(device)) f(vulkan::Device::get(device).impl());
  }
}

void synchronize(int device) {
  synchronize_device(device);
  reclaim_finished(device);
}

}  // namespace

std::atomic<bool> trace_taken{false};

TraceIds& trace_ids() noexcept {
  thread_local TraceIds ids;
  return ids;
}

void begin_trace(DeviceImpl& d, Batch& b) {
  if (!has_timestamps(d)) return;
  const bool elsewhere = b.copies_only && !d.transfer_queues.empty();
  if (elsewhere && d.transfer_timestamp_bits != d.timestamp_bits) return;
  auto trace = std::make_unique<BatchTrace>();
  DeviceTrace& mine = trace_of(d.index);
  {
    std::lock_guard lock(mine.mutex);
    if (!mine.pools.empty()) {
      trace->pool = mine.pools.back();
      mine.pools.pop_back();
    }
  }
  if (trace->pool == VK_NULL_HANDLE) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = kStamps;
    VK_CHECK(d.vk.vkCreateQueryPool(d.handle, &info, nullptr, &trace->pool));
  }
  if (b.copies_only)  // a queue that only copies cannot
    d.vk.vkResetQueryPool(d.handle, trace->pool, 0, kStamps);
  else
    d.vk.vkCmdResetQueryPool(b.cmd, trace->pool, 0, kStamps);
  d.vk.vkCmdWriteTimestamp2(b.cmd, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, trace->pool, 0);
  b.trace = std::move(trace);
}

void trace_command(DeviceImpl& d, Batch& b, TraceEntry entry) {
  BatchTrace& trace = *b.trace;
  if (trace.entries.size() + 2 > kStamps) {
    ++trace.dropped;
    return;
  }
  trace.entries.push_back(std::move(entry));
  d.vk.vkCmdWriteTimestamp2(b.cmd, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, trace.pool,
                            static_cast<uint32_t>(trace.entries.size()));
}

void end_trace(DeviceImpl& d, Batch& b) {
  if (b.copies_only) return;  // collect_trace asks for them
  const auto stamps = static_cast<uint32_t>(b.trace->entries.size() + 1);
  const Piece piece = b.staging.take(d, stamps * sizeof(uint64_t));
  const Segment* chunk = d.memory->find(piece.address);
  d.vk.vkCmdCopyQueryPoolResults(b.cmd, b.trace->pool, 0, stamps, static_cast<VkBuffer>(chunk->buffer),
                                 piece.address - chunk->address, sizeof(uint64_t),
                                 VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  b.trace->ticks = piece.host;
  b.writes_host = true;
}

void collect_trace(StreamImpl& s, Batch& b) {
  const std::unique_ptr<BatchTrace> trace = std::move(b.trace);
  const uint64_t mask = mask_of(*s.d);
  std::vector<uint64_t> asked(trace->ticks != nullptr ? 0 : trace->entries.size() + 1);
  if (!asked.empty()) {
    AULE_STREAM_CHECK(*s.d,
                      s.d->vk.vkGetQueryPoolResults(s.d->handle, trace->pool, 0, static_cast<uint32_t>(asked.size()),
                                                    asked.size() * sizeof(uint64_t), asked.data(), sizeof(uint64_t),
                                                    VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                      std::string());
  }
  const char* const ticks_of = asked.empty() ? trace->ticks : reinterpret_cast<const char*>(asked.data());
  const auto stamp = [&](size_t i) {
    uint64_t ticks;
    std::memcpy(&ticks, ticks_of + i * sizeof ticks, sizeof ticks);
    return static_cast<int64_t>(ticks & mask);
  };
  {
    Collected& all = collected();
    std::lock_guard lock(all.mutex);
    all.trace.dropped += trace->dropped;
    if (trace->replay) {
      trace->replay->begin_ns = static_cast<int64_t>(s.traced_ticks);
      trace->replay->end_ns = stamp(0);
      all.trace.entries.push_back(std::move(*trace->replay));
    }
    for (size_t i = 0; i < trace->entries.size(); ++i) {
      TraceEntry& entry = trace->entries[i];
      entry.begin_ns = stamp(i);
      entry.end_ns = stamp(i + 1);
      all.trace.entries.push_back(std::move(entry));
    }
  }
  s.traced_ticks = static_cast<uint64_t>(stamp(trace->entries.size()));
  DeviceTrace& mine = trace_of(s.d->index);
  std::lock_guard lock(mine.mutex);
  mine.pools.push_back(trace->pool);
}

TraceEntry StreamImpl::traced(Traced what, std::string name, uint64_t bytes) const {
  TraceEntry entry;
  entry.what = what;
  entry.name = std::move(name);
  entry.ids = trace_ids();
  entry.device = d->index;
  entry.stream = id;
  entry.bytes = bytes;
  return entry;
}

int64_t HostSpan::now() noexcept { return since_epoch(std::chrono::system_clock::now()); }

void HostSpan::end() noexcept {
  try {
    TraceEntry entry;
    entry.what = Traced::host;
    entry.name = name_;
    entry.ids = trace_ids();
    entry.thread = thread_number();
    entry.begin_ns = begin_;
    entry.end_ns = now();
    Collected& all = collected();
    std::lock_guard lock(all.mutex);
    if (tracing()) all.trace.entries.push_back(std::move(entry));
  } catch (...) {  // without memory for it the trace lacks a span
  }
}

void start_trace() {
  for_each_device([](DeviceImpl& d) { synchronize(d.index); });
  {
    std::lock_guard lock(collected().mutex);
    collected().trace = {};
  }
  trace_taken.store(true);
  for (int device = 0; device < kMaxDevices; ++device) trace_of(device).watched = false;
  for_each_device([](DeviceImpl& d) {
    if (!has_timestamps(d)) return;
    DeviceTrace& mine = trace_of(d.index);
    mine.start = moment_of(d, mine.calibrated);
    mine.watched = true;
  });
}

Trace stop_trace() {
  std::array<Moment, kMaxDevices> ends{};
  std::array<bool, kMaxDevices> has{};
  for_each_device([&](DeviceImpl& d) {
    synchronize(d.index);
    if (!has_timestamps(d)) return;
    const auto i = static_cast<size_t>(d.index);
    ends[i] = moment_of(d, trace_of(d.index).calibrated);
    has[i] = true;
  });
  trace_taken.store(false);
  Trace trace;
  {
    std::lock_guard lock(collected().mutex);
    trace = std::move(collected().trace);
    collected().trace = {};
  }
  // From the later moment back: with the device's nominal period, or with that between the two moments if they are far
  // enough apart to know it better. The counter may have wrapped once since an entry.
  std::array<double, kMaxDevices> period{};
  std::array<uint64_t, kMaxDevices> masks{};
  for_each_device([&](DeviceImpl& d) {
    const auto i = static_cast<size_t>(d.index);
    if (!has[i]) return;
    const DeviceTrace& mine = trace_of(d.index);
    period[i] = static_cast<double>(d.profile.timestamp_period_ns);
    masks[i] = mask_of(d);
    const int64_t passed = ends[i].unix_ns - mine.start.unix_ns;
    const uint64_t ticks = (ends[i].ticks - mine.start.ticks) & masks[i];
    const int64_t error = ends[i].error_ns + mine.start.error_ns;
    if (mine.watched && ticks > 0 && passed > 10000 * error)
      period[i] = static_cast<double>(passed) / static_cast<double>(ticks);
    trace.clocks.push_back({d.index, mine.calibrated, ends[i].error_ns});
  });
  std::erase_if(trace.entries,
                [&](const TraceEntry& e) { return e.what != Traced::host && !has[static_cast<size_t>(e.device)]; });
  for (TraceEntry& entry : trace.entries) {
    if (entry.what == Traced::host) continue;
    const auto i = static_cast<size_t>(entry.device);
    const auto before = [&](int64_t ticks) {
      const uint64_t gone = (ends[i].ticks - static_cast<uint64_t>(ticks)) & masks[i];
      // Behind the moment, by the error of the clocks.
      const double signed_gone =
          gone > masks[i] / 2 ? -static_cast<double>((masks[i] - gone) + 1) : static_cast<double>(gone);
      return ends[i].unix_ns - static_cast<int64_t>(signed_gone * period[i]);
    };
    entry.begin_ns = before(entry.begin_ns);
    entry.end_ns = std::max(entry.begin_ns, before(entry.end_ns));
  }
  return trace;
}

}  // namespace aule::stream
