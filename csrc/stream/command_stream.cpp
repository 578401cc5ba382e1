#include "stream/command_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "stream/batch.h"
#include "stream/errors.h"
#include "stream/hazards.h"
#include "stream/timestamps.h"
#include "vulkan/check.h"

namespace aule::stream {
using vulkan::DeviceImpl;
using vulkan::Pipeline;

namespace {

constexpr int kPoolStreams = 32;
constexpr uint32_t kFirstBatch = 4, kLargestBatch = 128;  // dispatches per submit: small while the device is idle, then doubling
constexpr uint64_t kParamsChunk = 256 << 10, kStagingChunk = 4 << 20, kStagingLimit = 64 << 20;
constexpr float kUnknownNsPerGroup = 200;

double time_budget_ns() {
  static const double budget = [] {
    const char* text = std::getenv("TORCH_AULE_TIME_BUDGET_MS");
    const double ms = text != nullptr ? std::atof(text) : 0;
    return (ms > 0 ? ms : 300.0) * 1e6;
  }();
  return budget;
}

constexpr VkPipelineStageFlags2 kCompute = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
constexpr VkPipelineStageFlags2 kTransfer = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
VkAccessFlags2 access_of(VkPipelineStageFlags2 stages) {
  VkAccessFlags2 access = 0;
  if (stages & kCompute) access |= VK_ACCESS_2_SHADER_READ_BIT | VK_ACCESS_2_SHADER_WRITE_BIT;
  if (stages & kTransfer) access |= VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT;
  return access;
}

}  // namespace

// A finished recording: the command buffer starts with a full barrier, so replays are ordered with everything before.
class CapturedGraph {
 public:
  ~CapturedGraph();
  StreamImpl* owner = nullptr;
  std::unique_ptr<Batch> batch;
};

struct StreamImpl {
  DeviceImpl& device;
  vulkan::Device& handle;
  vulkan::Queue& queue;
  int64_t id;
  CommandStream* self = nullptr;

  std::mutex mutex;
  VkSemaphore timeline = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  uint64_t next_value = 1, submitted = 0;
  std::atomic<uint64_t> completed{0};
  uint32_t batch_limit = kFirstBatch;
  std::unique_ptr<Batch> open;
  std::deque<std::unique_ptr<Batch>> in_flight;
  std::vector<std::unique_ptr<Batch>> spare;
  std::vector<Wait> next_waits;
  Hazards hazards;
  bool transfers_since_barrier = false;  // the next barrier's source must include copies
  bool transfer_covered = true;          // the last barrier also ordered later copies
  bool barrier_forced = false;           // after a replay: what the graph touched is not known
  std::unique_ptr<Batch> captured;       // being recorded, instead of `open`
  ChunkPool params_pool, staging_pool;
  Timestamps timestamps;

  StreamImpl(vulkan::Device& d, int64_t stream_id)
      : device(d.impl()), handle(d), queue(*d.impl().queues[static_cast<size_t>(stream_id) % d.impl().queues.size()]), id(stream_id),
        params_pool(device, kParamsChunk), staging_pool(device, kStagingChunk), timestamps(device) {
    const VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr, VK_SEMAPHORE_TYPE_TIMELINE, 0};
    const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VK_CHECK(device.vk.vkCreateSemaphore(device.handle, &semaphore, nullptr, &timeline));
    const VkCommandPoolCreateInfo commands{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, device.queue_family};
    VK_CHECK(device.vk.vkCreateCommandPool(device.handle, &commands, nullptr, &pool));
  }

  // ---- batches
  std::unique_ptr<Batch> new_batch(bool reusable) {
    std::unique_ptr<Batch> batch;
    if (!spare.empty() && !reusable) {
      batch = std::move(spare.back());
      spare.pop_back();
    } else {
      batch = std::make_unique<Batch>();
      const VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
      VK_CHECK(device.vk.vkAllocateCommandBuffers(device.handle, &info, &batch->commands));
      if (device.timestamp_bits != 0 && !reusable) {
        const VkQueryPoolCreateInfo times{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, nullptr, 0, VK_QUERY_TYPE_TIMESTAMP, 2, 0};
        VK_CHECK(device.vk.vkCreateQueryPool(device.handle, &times, nullptr, &batch->times));
      }
    }
    const VkCommandBufferUsageFlags usage = reusable ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, usage, nullptr};
    VK_CHECK(device.vk.vkBeginCommandBuffer(batch->commands, &begin));
    if (batch->times != VK_NULL_HANDLE) {
      device.vk.vkResetQueryPool(device.handle, batch->times, 0, 2);
      device.vk.vkCmdWriteTimestamp2(batch->commands, VK_PIPELINE_STAGE_2_NONE, batch->times, 0);
    }
    return batch;
  }

  Batch& target() {
    device.check_alive();
    if (captured != nullptr) return *captured;
    if (open == nullptr) {
      reclaim();
      open = new_batch(/*reusable=*/false);
      open->value = next_value;
      open->waits = std::move(next_waits);
      next_waits.clear();
    }
    return *open;
  }

  uint64_t flush() {
    if (open == nullptr) return submitted;
    Batch& b = *open;
    if (b.host_reads || device.caps->unified_memory) barrier_to_host(b);
    if (b.times != VK_NULL_HANDLE) device.vk.vkCmdWriteTimestamp2(b.commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, b.times, 1);
    checked(device.vk.vkEndCommandBuffer(b.commands), "vkEndCommandBuffer");
    in_flight.push_back(std::move(open));
    submit(b.commands, b.waits);
    batch_limit = std::min(batch_limit * 2, kLargestBatch);
    return submitted;
  }

  void submit(VkCommandBuffer commands, const std::vector<Wait>& waits) {
    std::vector<VkSemaphoreSubmitInfo> wait_infos;
    for (const Wait& w : waits)
      wait_infos.push_back({VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, nullptr, w.semaphore, w.value, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, 0});
    const VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, nullptr, timeline, next_value, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, 0};
    const VkCommandBufferSubmitInfo buffer{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, nullptr, commands, 0};
    VkSubmitInfo2 info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    info.waitSemaphoreInfoCount = static_cast<uint32_t>(wait_infos.size());
    info.pWaitSemaphoreInfos = wait_infos.data();
    info.commandBufferInfoCount = 1;
    info.pCommandBufferInfos = &buffer;
    info.signalSemaphoreInfoCount = 1;
    info.pSignalSemaphoreInfos = &signal;
    VkResult result;
    {
      std::lock_guard lock(queue.mutex);
      result = device.vk.vkQueueSubmit2(queue.handle, 1, &info, VK_NULL_HANDLE);
    }
    checked(result, "vkQueueSubmit2");
    submitted = next_value++;
  }

  // A lost device is reported with the kernels that may have lost it.
  void checked(VkResult result, const char* call) {
    if (result >= 0) return;
    if (result == VK_ERROR_DEVICE_LOST) device.mark_lost(lost_text(call));
    vulkan::throw_vulkan(result, call, __FILE__, __LINE__);
  }
  std::string lost_text(const char* call) const {
    std::string text = std::string("device lost in ") + call + " on " + device.caps->name + "; kernels in flight: ";
    std::string names;
    for (const std::string& name : in_flight_names()) names += (names.empty() ? "" : ", ") + name;
    return text + (names.empty() ? "none" : names) + ". The device stays lost for this process; save what is on the host and restart.";
  }
  std::vector<std::string> in_flight_names() const {
    std::vector<std::string> names;
    auto add = [&names](const Batch& b) {
      for (const Dispatched& d : b.dispatched)
        if (names.size() < 32 && std::find(names.begin(), names.end(), d.pipeline->label) == names.end()) names.push_back(d.pipeline->label);
    };
    for (const auto& b : in_flight) add(*b);
    if (open != nullptr) add(*open);
    return names;
  }

  bool reached(uint64_t value) {
    if (completed.load(std::memory_order_acquire) >= value) return true;
    uint64_t now = 0;
    checked(device.vk.vkGetSemaphoreCounterValue(device.handle, timeline, &now), "vkGetSemaphoreCounterValue");
    uint64_t before = completed.load();
    while (before < now && !completed.compare_exchange_weak(before, now)) {}
    return now >= value;
  }

  // Takes back batches that have completed, and learns from their timestamps.
  void reclaim() {
    while (!in_flight.empty() && reached(in_flight.front()->value)) {
      std::unique_ptr<Batch> batch = std::move(in_flight.front());
      in_flight.pop_front();
      learn(*batch);
      for (Chunk& c : batch->params) params_pool.give_back(c);
      for (Chunk& c : batch->staging) staging_pool.give_back(c);
      batch->clear();
      VK_CHECK(device.vk.vkResetCommandBuffer(batch->commands, 0));
      spare.push_back(std::move(batch));
    }
  }

  void learn(const Batch& batch) {
    if (batch.times == VK_NULL_HANDLE || batch.dispatched.empty() || batch.estimated_ns <= 0) return;
    uint64_t t[2] = {0, 0};
    if (device.vk.vkGetQueryPoolResults(device.handle, batch.times, 0, 2, sizeof t, t, 8, VK_QUERY_RESULT_64_BIT) != VK_SUCCESS || t[1] <= t[0]) return;
    const double measured = static_cast<double>(t[1] - t[0]) * device.caps->timestamp_period_ns;
    const auto ratio = static_cast<float>(std::clamp(measured / batch.estimated_ns, 1.0 / 64, 64.0));
    for (const Dispatched& d : batch.dispatched) {
      float& ns = d.pipeline->ns_per_group;
      const float known = ns > 0 ? ns : kUnknownNsPerGroup;
      ns = 0.5f * known + 0.5f * known * ratio;
    }
  }

  // ---- barriers
  void barrier(Batch& b, VkPipelineStageFlags2 from, VkPipelineStageFlags2 to) {
    const VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2, nullptr, from, access_of(from), to, access_of(to)};
    VkDependencyInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &memory;
    device.vk.vkCmdPipelineBarrier2(b.commands, &info);
  }
  void barrier_to_host(Batch& b) {
    const VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2, nullptr, kCompute | kTransfer, VK_ACCESS_2_SHADER_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT,
                                  VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT};
    VkDependencyInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &memory;
    device.vk.vkCmdPipelineBarrier2(b.commands, &info);
  }
  void order(Batch& b, const Access* accesses, size_t count, bool transfer) {
    const bool due = barrier_forced || (transfer && !transfer_covered) || hazards.conflicts(accesses, count);
    if (due) {
      const bool copies = transfers_since_barrier || transfer || barrier_forced;
      barrier(b, kCompute | (copies ? kTransfer : 0), kCompute | (copies ? kTransfer : 0));
      hazards.clear();
      barrier_forced = false;
      transfers_since_barrier = false;
      transfer_covered = copies;
    }
    hazards.add(accesses, count);
    if (transfer) transfers_since_barrier = true;
    else transfer_covered = false;
    if (device.caps->unified_memory) b.touched.insert(b.touched.end(), accesses, accesses + count);
  }

  // ---- work
  uint64_t ring(Batch& b, const void* data, size_t bytes) {
    const uint64_t need = (bytes + 15) / 16 * 16;
    if (b.params.empty() || b.params.back().left() < need) b.params.push_back(params_pool.take(need));
    Chunk& c = b.params.back();
    std::memcpy(static_cast<char*>(c.segment->mapped) + c.used, data, bytes);
    const uint64_t address = c.segment->address + c.used;
    c.used += need;
    return address;
  }

  void record_dispatch(Batch& b, const Pipeline& pipeline, const void* params, size_t bytes, uint32_t base[3], const uint32_t count[3]) {
    auto& vk = device.vk;
    if (device.labels && vk.vkCmdBeginDebugUtilsLabelEXT != nullptr) {
      VkDebugUtilsLabelEXT label{VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, nullptr, pipeline.label.c_str(), {0, 0, 0, 0}};
      vk.vkCmdBeginDebugUtilsLabelEXT(b.commands, &label);
    }
    vk.vkCmdBindPipeline(b.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
    vk.vkCmdPushConstants(b.commands, device.pipelines->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(bytes), params);
    vk.vkCmdDispatchBase(b.commands, base[0], base[1], base[2], count[0], count[1], count[2]);
    if (device.labels && vk.vkCmdEndDebugUtilsLabelEXT != nullptr) vk.vkCmdEndDebugUtilsLabelEXT(b.commands);
  }

  void dispatch(const Pipeline& pipeline, const void* params, size_t bytes, const Access* accesses, size_t access_count, Grid grid) {
    const uint64_t groups = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    if (groups == 0) return;
    const double per_group = pipeline.ns_per_group > 0 ? pipeline.ns_per_group : kUnknownNsPerGroup;
    const double cost = per_group * static_cast<double>(groups), budget = time_budget_ns();
    if (captured == nullptr && open != nullptr && open->estimated_ns + cost > budget) flush();
    Batch* b = &target();
    order(*b, accesses, access_count, /*transfer=*/false);
    auto push = [&](const uint32_t base_in[3], const uint32_t count[3]) {
      uint32_t base[3] = {base_in[0], base_in[1], base_in[2]};
      uint64_t address = 0;
      const void* data = params;
      size_t size = bytes;
      if (pipeline.params_ring) {
        address = ring(*b, params, bytes);
        data = &address;
        size = sizeof address;
      }
      record_dispatch(*b, pipeline, data, size, base, count);
      const uint64_t n = static_cast<uint64_t>(count[0]) * count[1] * count[2];
      b->dispatched.push_back({&pipeline, n});
      b->estimated_ns += per_group * static_cast<double>(n);
      ++b->recorded;
    };
    const uint32_t zero[3] = {0, 0, 0}, all[3] = {grid.x, grid.y, grid.z};
    const auto parts = static_cast<uint32_t>(std::min(cost / budget + 1, 4096.0));
    if (parts <= 1 || captured != nullptr) {
      push(zero, all);
    } else {
      // Cut along the outermost axis that has enough groups; no barrier between the parts: they are one kernel.
      const int axis = grid.z >= parts ? 2 : grid.y >= parts ? 1 : 0;
      const uint32_t step = std::max(1u, (all[axis] + parts - 1) / parts);
      for (uint32_t at = 0; at < all[axis]; at += step) {
        uint32_t base[3] = {0, 0, 0}, count[3] = {grid.x, grid.y, grid.z};
        base[axis] = at;
        count[axis] = std::min(step, all[axis] - at);
        push(base, count);
        if (at + step < all[axis]) {
          flush();
          b = &target();
        }
      }
    }
    if (captured == nullptr && b->recorded >= batch_limit) flush();
  }

  VkBuffer buffer_of(uint64_t address, uint64_t bytes, uint64_t& offset) {
    vulkan::Segment* segment = device.memory->find(address);
    if (segment == nullptr || address + bytes > segment->address + segment->bytes)
      throw vulkan::Error("copy outside of any allocation of this device");
    offset = address - segment->address;
    return static_cast<VkBuffer>(segment->buffer);
  }

  void copy(uint64_t dst, uint64_t src, uint64_t bytes) {
    if (bytes == 0 || dst == src) return;
    Batch& b = target();
    const Access accesses[] = {{src, src + bytes, false}, {dst, dst + bytes, true}};
    order(b, accesses, 2, /*transfer=*/true);
    VkBufferCopy region{0, 0, bytes};
    VkBuffer from = buffer_of(src, bytes, region.srcOffset), to = buffer_of(dst, bytes, region.dstOffset);
    device.vk.vkCmdCopyBuffer(b.commands, from, to, 1, &region);
    after_transfer(b, bytes);
  }
  void fill(uint64_t dst, uint64_t bytes, uint32_t word) {
    if (bytes == 0) return;
    if (dst % 4 != 0 || bytes % 4 != 0) throw vulkan::Error("fill: address and size must be multiples of 4");
    Batch& b = target();
    const Access access{dst, dst + bytes, true};
    order(b, &access, 1, /*transfer=*/true);
    uint64_t offset = 0;
    VkBuffer to = buffer_of(dst, bytes, offset);
    device.vk.vkCmdFillBuffer(b.commands, to, offset, bytes, word);
    after_transfer(b, bytes);
  }
  void after_transfer(Batch& b, uint64_t bytes) {
    ++b.recorded;
    b.estimated_ns += static_cast<double>(bytes) / 8.0;  // as slow as 8 GB/s, a bus copy
    if (captured == nullptr && (b.recorded >= batch_limit || b.estimated_ns > time_budget_ns())) flush();
  }

  void refuse_while_capturing(const char* what) const {
    if (captured != nullptr) throw vulkan::Error(std::string(what) + " is not allowed while a graph is captured on this stream");
  }

  // True when nothing recorded or running touches the range: then the host may write mapped memory itself.
  bool untouched(uint64_t begin, uint64_t end) {
    reclaim();
    auto touches = [&](const Batch& b) {
      return std::any_of(b.touched.begin(), b.touched.end(), [&](const Access& a) { return a.begin < end && begin < a.end; });
    };
    if (open != nullptr && touches(*open)) return false;
    return std::none_of(in_flight.begin(), in_flight.end(), [&](const auto& b) { return touches(*b); });
  }

  void upload(std::unique_lock<std::mutex>& lock, uint64_t dst, const void* host, uint64_t bytes) {
    refuse_while_capturing("a copy from host memory");
    device.check_alive();
    if (device.caps->unified_memory && bytes >= 4096) {
      vulkan::Segment* segment = device.memory->find(dst);
      if (segment != nullptr && segment->mapped != nullptr && untouched(dst, dst + bytes)) {
        std::memcpy(static_cast<char*>(segment->mapped) + (dst - segment->address), host, bytes);
        return;
      }
    }
    const char* from = static_cast<const char*>(host);
    for (uint64_t at = 0; at < bytes;) {
      if (staging_pool.outstanding_bytes() > kStagingLimit) {
        flush();
        const uint64_t oldest = in_flight.empty() ? 0 : in_flight.front()->value;
        lock.unlock();
        sleep_until(oldest);
        lock.lock();
        reclaim();
      }
      Batch& b = target();
      if (b.staging.empty() || b.staging.back().left() < 64) b.staging.push_back(staging_pool.take(std::min<uint64_t>(bytes - at, kStagingChunk)));
      Chunk& c = b.staging.back();
      const uint64_t part = std::min(bytes - at, c.left());
      std::memcpy(static_cast<char*>(c.segment->mapped) + c.used, from + at, part);
      const uint64_t source = c.segment->address + c.used;
      c.used = (c.used + part + 15) / 16 * 16;
      c.used = std::min(c.used, c.segment->bytes);
      copy(dst + at, source, part);
      at += part;
    }
  }

  void download(std::unique_lock<std::mutex>& lock, void* host, uint64_t src, uint64_t bytes) {
    refuse_while_capturing("reading a value");
    vulkan::Segment* segment = device.memory->find(src);
    if (segment != nullptr && segment->mapped != nullptr && device.caps->unified_memory) {
      const uint64_t value = flush();
      lock.unlock();
      sleep_until(value);
      std::memcpy(host, static_cast<const char*>(segment->mapped) + (src - segment->address), bytes);
      lock.lock();
      return;
    }
    // Two chunks in turn, so that one is read on the host while the other is filled.
    struct Part { Chunk chunk; uint64_t at, bytes, value; };
    std::deque<Part> parts;
    auto drain = [&] {
      Part part = parts.front();
      parts.pop_front();
      lock.unlock();
      sleep_until(part.value);
      std::memcpy(static_cast<char*>(host) + part.at, part.chunk.segment->mapped, part.bytes);
      lock.lock();
      staging_pool.give_back(part.chunk);
    };
    for (uint64_t at = 0; at < bytes;) {
      if (parts.size() == 2) drain();
      Chunk chunk = staging_pool.take(std::min<uint64_t>(bytes - at, kStagingChunk));
      const uint64_t part = std::min(bytes - at, chunk.segment->bytes);
      target().host_reads = true;
      copy(chunk.segment->address, src + at, part);
      if (open != nullptr) open->host_reads = true;
      parts.push_back({chunk, at, part, flush()});
      at += part;
    }
    while (!parts.empty()) drain();
  }

  // The stream's lock is not held: others go on recording.
  void sleep_until(uint64_t value) {
    if (value == 0 || reached(value)) return;
    if (device.caps->kind != Caps::Kind::cpu) {
      // A poll finds the end 20 us earlier than a sleep; on a software device it would steal the worker's core.
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
      while (std::chrono::steady_clock::now() < until)
        if (reached(value)) return;
    }
    const VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &timeline, &value};
    for (;;) {
      device.check_alive();
      const VkResult result = device.vk.vkWaitSemaphores(device.handle, &info, 1'000'000'000ull);
      if (result == VK_SUCCESS) break;
      if (result != VK_TIMEOUT) checked(result, "vkWaitSemaphores");
    }
    reached(value);
  }
};

CapturedGraph::~CapturedGraph() {
  if (batch == nullptr || owner == nullptr) return;
  std::lock_guard lock(owner->mutex);
  for (Chunk& c : batch->params) owner->params_pool.give_back(c);
  owner->device.vk.vkFreeCommandBuffers(owner->device.handle, owner->pool, 1, &batch->commands);
}

// ---- registry
namespace {
struct DeviceStreams {
  std::array<std::atomic<CommandStream*>, kPoolStreams + 1> streams{};
  std::atomic<uint32_t> next{0};
};
std::array<DeviceStreams, 64> g_streams;
std::mutex g_streams_mutex;
}  // namespace

CommandStream& CommandStream::get(int device, int64_t id) {
  if (device < 0 || device >= 64 || id < 0 || id > kPoolStreams) throw vulkan::Error("no stream " + std::to_string(id) + " on device " + std::to_string(device));
  auto& slot = g_streams[static_cast<size_t>(device)].streams[static_cast<size_t>(id)];
  CommandStream* found = slot.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  vulkan::Device& d = vulkan::Device::get(device);
  std::lock_guard lock(g_streams_mutex);
  if (slot.load() == nullptr) slot.store(new CommandStream(std::make_unique<StreamImpl>(d, id)), std::memory_order_release);
  return *slot.load();
}

int64_t CommandStream::next_pool_id(int device, int priority) {
  // The upper half of the pool is for high priority: separate queues where the device has them.
  auto& next = g_streams.at(static_cast<size_t>(device)).next;
  const uint32_t n = next.fetch_add(1) % (kPoolStreams / 2);
  return 1 + n + (priority < 0 ? kPoolStreams / 2 : 0);
}

CommandStream::CommandStream(std::unique_ptr<StreamImpl> impl) : impl_(std::move(impl)) { impl_->self = this; }
CommandStream::~CommandStream() = default;

int CommandStream::device_index() const { return impl_->device.index; }
vulkan::Device& CommandStream::device() const { return impl_->handle; }
int64_t CommandStream::id() const { return impl_->id; }

void CommandStream::dispatch(const Pipeline& pipeline, const void* params, size_t bytes, const Access* accesses, size_t count, Grid grid) {
  std::lock_guard lock(impl_->mutex);
  impl_->dispatch(pipeline, params, bytes, accesses, count, grid);
}
void CommandStream::copy(uint64_t dst, uint64_t src, uint64_t bytes) {
  std::lock_guard lock(impl_->mutex);
  impl_->copy(dst, src, bytes);
}
void CommandStream::fill(uint64_t dst, uint64_t bytes, uint32_t word) {
  std::lock_guard lock(impl_->mutex);
  impl_->fill(dst, bytes, word);
}
void CommandStream::upload(uint64_t dst, const void* host, uint64_t bytes) {
  std::unique_lock lock(impl_->mutex);
  impl_->upload(lock, dst, host, bytes);
}
void CommandStream::download(void* host, uint64_t src, uint64_t bytes) {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->download(lock, host, src, bytes);
    impl_->batch_limit = kFirstBatch;
  }
  raise_device_errors(impl_->device.index);
}

uint64_t CommandStream::flush() {
  std::lock_guard lock(impl_->mutex);
  return impl_->flush();
}
uint64_t CommandStream::pending_value() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->open != nullptr ? impl_->open->value : impl_->submitted;
}
bool CommandStream::done(uint64_t value) {
  if (impl_->completed.load(std::memory_order_acquire) >= value) return true;
  std::lock_guard lock(impl_->mutex);
  impl_->device.check_alive();
  if (value > impl_->submitted) impl_->flush();
  return impl_->reached(value);
}
void CommandStream::wait(uint64_t value) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->refuse_while_capturing("waiting");
    impl_->device.check_alive();
    if (value > impl_->submitted) impl_->flush();
    impl_->batch_limit = kFirstBatch;
  }
  impl_->sleep_until(value);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->reclaim();
  }
  raise_device_errors(impl_->device.index);
}
void CommandStream::synchronize() { wait(flush()); }
bool CommandStream::idle() { return done(pending_value()); }

Marker CommandStream::record(bool timing) {
  std::lock_guard lock(impl_->mutex);
  Marker marker{this, 0, -1};
  if (impl_->captured != nullptr) return marker;  // inside a graph order is the graph's own
  if (timing && impl_->device.timestamp_bits != 0) {
    Batch& b = impl_->target();
    impl_->timestamps.settle([this](uint64_t value) { return impl_->completed.load() >= value; });
    marker.timestamp = impl_->timestamps.acquire();
    impl_->timestamps.write(b.commands, marker.timestamp);
    ++b.recorded;
  }
  marker.value = impl_->open != nullptr ? impl_->open->value : impl_->submitted;
  return marker;
}
void CommandStream::wait_for(const Marker& marker) {
  if (marker.stream == nullptr || marker.stream == this || marker.value == 0 || marker.stream->done(marker.value)) return;
  if (&marker.stream->impl_->device != &impl_->device) {
    marker.stream->wait(marker.value);  // semaphores are not shared between devices
    return;
  }
  std::lock_guard lock(impl_->mutex);
  impl_->refuse_while_capturing("waiting for another stream");
  impl_->flush();
  impl_->next_waits.push_back({marker.stream->impl_->timeline, marker.value});
}
double CommandStream::elapsed_ms(const Marker& start, const Marker& end) {
  if (start.stream == nullptr || end.stream == nullptr || start.timestamp < 0 || end.timestamp < 0)
    throw vulkan::Error("elapsed_time: both events must be recorded with enable_timing=True on a device with timestamps");
  start.stream->wait(start.value);
  end.stream->wait(end.value);
  StreamImpl &a = *start.stream->impl_, &b = *end.stream->impl_;
  return b.timestamps.read_ms(end.timestamp) - a.timestamps.read_ms(start.timestamp);
}
void CommandStream::release(Marker& marker) {
  if (marker.timestamp < 0 || marker.stream != this) return;
  std::lock_guard lock(impl_->mutex);
  impl_->timestamps.release(marker.timestamp, marker.value);
  marker.timestamp = -1;
}

void CommandStream::capture_begin() {
  std::lock_guard lock(impl_->mutex);
  impl_->refuse_while_capturing("a second capture");
  impl_->device.check_alive();
  impl_->flush();
  impl_->captured = impl_->new_batch(/*reusable=*/true);
  impl_->barrier_forced = true;  // the graph begins with a full barrier
}
std::shared_ptr<CapturedGraph> CommandStream::capture_end() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->captured == nullptr) throw vulkan::Error("capture_end without capture_begin");
  auto graph = std::make_shared<CapturedGraph>();
  graph->owner = impl_.get();
  graph->batch = std::move(impl_->captured);
  if (impl_->device.caps->unified_memory) impl_->barrier_to_host(*graph->batch);
  VK_CHECK(impl_->device.vk.vkEndCommandBuffer(graph->batch->commands));
  impl_->hazards.clear();
  impl_->barrier_forced = true;
  return graph;
}
void CommandStream::replay(CapturedGraph& graph) {
  std::lock_guard lock(impl_->mutex);
  impl_->refuse_while_capturing("replaying a graph");
  impl_->device.check_alive();
  if (&graph.owner->device != &impl_->device) throw vulkan::Error("replay: the graph was captured on another device");
  impl_->flush();
  std::vector<Wait> waits = std::move(impl_->next_waits);
  impl_->next_waits.clear();
  impl_->submit(graph.batch->commands, waits);
  impl_->hazards.clear();
  impl_->barrier_forced = true;
}
bool CommandStream::capturing() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->captured != nullptr;
}
std::vector<std::string> CommandStream::kernels_in_flight() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->in_flight_names();
}

uint64_t CommandStream::error_address() const { return impl_->device.error_record->address; }

void synchronize_device(int device) {
  if (!vulkan::device_created(device)) return;
  for (auto& slot : g_streams.at(static_cast<size_t>(device)).streams)
    if (CommandStream* stream = slot.load(std::memory_order_acquire)) stream->synchronize();
}

// ---- errors that kernels report
namespace {
std::atomic<const char* (*)(uint32_t)> g_tag_names{nullptr};
struct ErrorRecord {
  uint32_t code, kernel;
  int64_t value, bound;
};
}  // namespace

void set_error_tag_names(const char* (*name_of)(uint32_t)) { g_tag_names = name_of; }

void raise_device_errors(int device) {
  DeviceImpl& d = vulkan::Device::get(device).impl();
  auto* mapped = static_cast<volatile ErrorRecord*>(d.error_record->mapped);
  if (mapped->code == AULE_ERR_NONE) return;
  const ErrorRecord record{mapped->code, mapped->kernel, mapped->value, mapped->bound};
  mapped->kernel = 0;
  mapped->code = AULE_ERR_NONE;
  auto name_of = g_tag_names.load();
  const std::string op = name_of != nullptr ? name_of(record.kernel) : "a kernel";
  const std::string value = std::to_string(record.value), bound = std::to_string(record.bound);
  switch (record.code) {
    case AULE_ERR_INDEX_OUT_OF_RANGE: throw vulkan::IndexError(op + ": index " + value + " is out of bounds for dimension with size " + bound);
    case AULE_ERR_CLASS_OUT_OF_RANGE: throw vulkan::IndexError(op + ": target " + value + " is out of bounds for " + bound + " classes");
    case AULE_ERR_INVALID_PROBABILITY: throw vulkan::IndexError(op + ": probability tensor contains either inf, nan or element < 0, or a row without any positive entry");
    default: throw vulkan::IndexError(op + ": device-side assertion failed (value " + value + ", bound " + bound + ")");
  }
}

}  // namespace aule::stream
