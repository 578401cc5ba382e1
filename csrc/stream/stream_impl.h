// The parts of a command stream that its .cpp files share. The caller holds StreamImpl::mutex unless a comment excepts
// the function.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stream/command_stream.h"
#include "stream/cost.h"
#include "stream/deferred.h"
#include "stream/hazards.h"
#include "stream/trace.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/memory.h"
#include "vulkan/pipeline.h"

// VK_CHECK for functions with a device `d`: it also records a lost device, with the kernels `in_flight`.
#define AULE_STREAM_CHECK(d, call, in_flight)                                                   \
  do {                                                                                          \
    VkResult aule_vk_result_ = (call);                                                          \
    if (aule_vk_result_ < 0) (d).fail(aule_vk_result_, #call, __FILE__, __LINE__, (in_flight)); \
  } while (0)

namespace aule::stream {

using vulkan::DeviceImpl;
using vulkan::MemoryKind;
using vulkan::Segment;

struct Piece {
  char* host = nullptr;
  uint64_t address = 0;
};

// Chunks of one kind, filled from the front. They return to the device's pool when the batch is done.
class Ring {
 public:
  Ring(MemoryKind kind, uint64_t chunk_bytes) : kind_(kind), chunk_bytes_(chunk_bytes) {}
  Piece take(DeviceImpl& d, uint64_t bytes);  // 16-byte aligned
  void recycle(DeviceImpl& d);
  uint64_t total() const { return total_; }

 private:
  MemoryKind kind_;
  uint64_t chunk_bytes_, used_ = 0, total_ = 0;
  std::vector<Segment*> chunks_;
};
constexpr uint64_t kParamChunk = 64 << 10, kStagingChunk = 1 << 20, kBigStagingChunk = 8 << 20;
Segment* take_chunk(DeviceImpl& d, MemoryKind kind, uint64_t bytes);  // thread safe, as is the next
void give_chunk(DeviceImpl& d, Segment* chunk);

// Timestamps of a batch under a trace: one at its beginning, one after each entry.
struct BatchTrace {
  VkQueryPool pool = VK_NULL_HANDLE;
  const char* ticks = nullptr;  // in the batch's staging memory, once it has run; null: they are in the pool
  std::vector<TraceEntry> entries;
  std::optional<TraceEntry> replay;  // of a graph, from the stream's last timestamp to the first one here
  uint64_t dropped = 0;
};

// One command buffer, and the memory that must live until it has run.
struct Batch {
  explicit Batch(bool copies_only) : copies_only(copies_only) {}
  const bool copies_only;  // as its stream's
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer cmd = VK_NULL_HANDLE;
  VkQueryPool timing = VK_NULL_HANDLE;  // two timestamps, for the cost model
  // A software driver's vkGetQueryPoolResults waits for all work of the device. There the command buffer copies the
  // timestamps to here, in `staging`.
  const char* ticks = nullptr;
  uint64_t value = 0;
  uint64_t least_value = 0;  // that `value` may have: of a marker that was given out before this was begun
  bool timed = false;
  bool writes_host = false;  // a command writes memory that the host reads through a mapping
  VkPipeline bound = VK_NULL_HANDLE;
  char pushed[256] = {};      // push constants as the last dispatch left them
  uint32_t pushed_bytes = 0;  // how many bytes of `pushed` are set
  uint32_t commands = 0;
  uint32_t transfers = 0, barriers = 0;  // copies and fills, which are commands too
  float predicted_ns = 0;
  std::vector<CostModel::Work> work;
  std::vector<const vulkan::Pipeline*> pipelines;             // parallel to work, for the names
  std::vector<std::shared_ptr<const vulkan::Pipeline>> held;  // those that may be dropped before this has run
  Ring params{MemoryKind::upload, kParamChunk};
  Ring staging{MemoryKind::host, kStagingChunk};
  std::vector<VkSemaphoreSubmitInfo> waits;  // one for each semaphore
  std::unique_ptr<BatchTrace> trace;         // null without a trace
};
// Of a timeline that is waited for already, the later value.
void add_wait(std::vector<VkSemaphoreSubmitInfo>& waits, VkSemaphore timeline, uint64_t value);
void begin_batch(DeviceImpl& d, Batch& b, VkCommandBufferUsageFlags flags, bool timed);
void end_batch(DeviceImpl& d, Batch& b);
void recycle_batch(DeviceImpl& d, Batch& b);  // ready for begin_batch
void destroy_batch(DeviceImpl& d, Batch* b);
bool read_timing(DeviceImpl& d, const Batch& b, uint64_t ticks[2]);  // of a batch that is done; false if there is none
// Called for a batch that was just begun; after each of its commands, if it has a trace; before its end; once it has
// run.
void begin_trace(DeviceImpl& d, Batch& b);
void trace_command(DeviceImpl& d, Batch& b, TraceEntry entry);
void end_trace(DeviceImpl& d, Batch& b);
void collect_trace(StreamImpl& s, Batch& b);
void record_barrier(DeviceImpl& d, VkCommandBuffer cmd, uint8_t before, uint8_t after);

// A kernel's workgroups in a command buffer. `base` and `grid` may be a part of the caller's grid.
struct Recorded {
  const vulkan::Pipeline* pipeline;
  const void* params;
  size_t params_bytes;
  Grid base, grid;
  uint64_t bytes;  // read and written, for the cost model
  float predicted_ns;
  Work work;
};

// The cost model of a device, which all its streams share: a graph is captured on a stream of its own, after its
// kernels have run on another one.
class DeviceCost {
 public:
  static DeviceCost& of(const DeviceImpl& d);
  float predict(uint32_t pipeline, uint64_t groups, uint64_t bytes, bool& known) const {
    std::lock_guard lock(mutex_);
    known = model_.knows(pipeline, groups);
    return model_.predict(pipeline, groups, bytes);
  }
  void learn(const std::vector<CostModel::Work>& work, double total_ns) {
    std::lock_guard lock(mutex_);
    model_.learn(work, total_ns);
  }

 private:
  mutable std::mutex mutex_;
  CostModel model_;
};

constexpr size_t kMaxInFlight = 64;  // batches of a stream, unless the user sets another limit

struct StreamImpl {
  static StreamImpl& of(CommandStream& stream) { return *stream.impl_; }

  vulkan::Device* device = nullptr;
  DeviceImpl* d = nullptr;
  vulkan::Queue* queue = nullptr;
  uint32_t family = 0;  // of the queue
  int64_t id = 0;
  // A stream of transfers takes copies and fills only, so that its queue may be one that does nothing else.
  bool copies_only = false;

  mutable std::mutex mutex;
  VkSemaphore timeline = VK_NULL_HANDLE;
  uint64_t submitted = 0;
  std::atomic<uint64_t> completed{0};
  Batch* current = nullptr;  // the batch that is being recorded, or null
  std::deque<Batch*> in_flight;
  // Staging that the host does not read any more, though the device may still write it: its wait was interrupted.
  std::vector<std::pair<uint64_t, Segment*>> abandoned;
  std::vector<Batch*> spare;
  size_t max_in_flight = kMaxInFlight;
  std::deque<Deferred> deferred;  // behind what was recorded
  uint64_t deferred_bytes = 0;    // of uploads
  uint64_t reserved = 0;          // the largest value of a marker that was deferred
  std::exception_ptr failure;     // of a deferred command, for the next call that waits
  Hazards hazards;
  DeviceCost* cost = nullptr;
  double budget_ns = 0;
  uint32_t submit_after = 0;  // commands; grows while work keeps coming
  uint32_t begun = 0;         // batches
  bool time_next = true;      // the next batch to begin must be timed
  uint64_t traced_ticks = 0;  // the last timestamp that a trace has collected

  // Uploads through staging memory. Later submissions of other streams wait for them.
  std::atomic<uint64_t> uploaded{0};      // value of the last one submitted
  uint64_t uploads_awaited = 0;           // count of the device's uploads when this stream last looked
  std::atomic<uint64_t> uploads_done{0};  // of the device's uploads, those known to have run or to be this stream's own
  const std::atomic<uint32_t>* deferred_uploads = nullptr;  // how many streams of the device have what follows
  std::atomic<bool> upload_deferred{false};  // an upload that other streams must wait for is not submitted yet

  // The error record's address was asked for, so the next dispatch may write memory that the host reads.
  std::atomic<bool> error_record_used{false};

  // Of wait_later. Meanwhile the current batch has no command, and is submitted with the waits for what has arrived.
  std::atomic<bool> awaits{false};
  mutable std::mutex arrivals_mutex;  // taken before `mutex`, and not held while the host waits
  std::condition_variable arrivals_changed;
  std::deque<Arrival> arrivals;
  bool arriving = false;  // a thread waits for one of them

  CapturedGraph* capture = nullptr;
  std::shared_ptr<CapturedGraph> capture_owner;
  Hazards saved_hazards;

  TraceEntry traced(Traced what, std::string name, uint64_t bytes) const;
  Batch* make_batch();
  Batch& target();           // the batch that takes the next command; begins one if there is none
  Batch& begin(bool timed);  // where none is being recorded, and no graph is captured
  void access(Stage stage, const Access* accesses, size_t count);  // records the barrier that the accesses need
  void record(const Recorded& r);
  void record_in_parts(const Recorded& r);  // submitted one by one
  void dispatch(const vulkan::Pipeline& pipeline, const void* params, size_t params_bytes, const Access* accesses,
                size_t access_count, Grid grid, const Work& work);
  void push(Batch& b, const void* params, size_t bytes);
  void copy(uint64_t dst, uint64_t src, uint64_t bytes);
  void upload_piece(uint64_t dst, const char* host, uint64_t bytes);  // through staging memory
  // Commands that may be deferred (stream/deferred.h). The first of these asks before every command, and goes on with
  // what was deferred; the ..._now record at once.
  bool must_defer(const vulkan::Pipeline* pipeline = nullptr);
  Deferred& defer(Deferred::What what);
  void record_deferred(bool wait);
  void record_now(const Deferred& next);
  void dispatch_now(const vulkan::Pipeline& pipeline, const void* params, size_t params_bytes, const Access* accesses,
                    size_t access_count, Grid grid, const Work& work);
  void copy_now(uint64_t dst, uint64_t src, uint64_t bytes);
  void fill_now(uint64_t dst, uint64_t bytes, uint32_t word);
  void timestamp_now(int32_t slot);
  void wait_now(VkSemaphore of, uint64_t value);
  void begin_label(const char* name);
  void end_label();
  CommandStream* stream_of_copies(uint64_t dst, uint64_t src, uint64_t bytes);
  void order_before(StreamImpl& other);                   // takes both locks, one after the other
  void split_before(float predicted_ns);                  // a new batch if this one would pass the time budget
  void time_if_needed(bool unknown, float predicted_ns);  // called before the command is recorded
  void submit_if_due();
  uint64_t behind() const;  // the value to wait for when too much is in flight, else 0; see let_device_catch_up
  StreamLoad load();
  bool busy();  // true if the device has enough work to hide a submission
  uint64_t submit_current();  // the batch that is being recorded; returns the last value submitted
  uint64_t flush();           // likewise, with what is deferred: waits for its pipelines
  uint64_t submit(Batch& b);  // of a batch that was ended; returns its timeline value
  void upload_recorded();     // submits the upload if the device has other streams, which may need it
  void upload_submitted();
  void await_uploads();  // that other streams have deferred; the caller holds no lock
  void add_upload_waits(std::vector<VkSemaphoreSubmitInfo>& waits);
  bool direct(const Segment& segment, uint64_t bytes, bool write) const;  // whether the host may move them by itself
  void reclaim();
  // The values that the batches recorded so far, and all commands asked for so far, will have signalled.
  uint64_t pending() const { return current ? std::max(submitted + 1, current->least_value) : submitted; }
  uint64_t point();
  void raise_failure();
  bool is_idle();
  void refuse_capture(const char* what) const;

  // These take no lock and need none.
  uint64_t poll();                   // completed value, asked from the driver
  void sleep_until(uint64_t value);  // value must be submitted
  // The same, interrupted by signals (stream/interrupts.h): the caller holds no lock.
  void wait_until(uint64_t value);
  // Whether every upload of other streams has run. Waits for those that have not if `wait` says so, as wait_until does.
  bool other_uploads_done(bool wait);
  // For a value of behind(), where no lock is held. A signal only ends the wait: what was recorded stays whole, and the
  // signal is handled when the operator has returned.
  void let_device_catch_up(uint64_t value);
  bool poll_until(uint64_t value);                     // gives up when sleeping is due; false then
  bool sleep_for(uint64_t value, uint64_t ns);         // true once `value` is complete
  std::vector<std::string> kernels_in_flight() const;  // needs the lock, as does the next
  std::string names_in_flight() const;
};

void wait_for_submitted(int device);  // by all streams; like wait_until
void reclaim_finished(int device);    // of all streams, so that the cost model knows it; the caller holds no lock

class CapturedGraph {
 public:
  explicit CapturedGraph(StreamImpl& stream) : stream(stream) {}
  ~CapturedGraph();
  StreamImpl& stream;
  std::vector<Batch*> batches;  // ended, except the last while capturing
  RangeSet written, used;       // by any of its commands; what is written is used
  std::mutex mutex;             // guards replays: the latest one on each stream
  std::vector<std::pair<StreamImpl*, uint64_t>> replays;
};

}  // namespace aule::stream
