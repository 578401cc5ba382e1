// A command stream: a recorder plus one timeline semaphore. Work is recorded and submitted in batches, which start
// small and grow. The host waits only if it asks for a value. Commands whose pipelines are being compiled, and those
// behind them, are kept as data until they can be recorded (stream/deferred.h).
//
// Threads: every public member takes the stream's own mutex; nothing above locks. Streams live until process exit.
// Order: dispatches of one stream behave as if executed one after another. A barrier is recorded only if a range that
// is read was written, or a range that is written was read or written, since the last barrier.
// Errors: calls throw vulkan::Error and its subclasses (vulkan/check.h). After a lost device every call throws
// DeviceLost. Why a deferred command could not be recorded, for lack of a pipeline or of memory, is thrown once, by the
// next call that submits or waits on request; that command is left out.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/access.h"

namespace aule::vulkan {
class Device;
class Pipeline;
}  // namespace aule::vulkan

namespace aule::stream {

struct StreamImpl;
class CommandStream;
class CapturedGraph;  // re-submittable command buffers; see capture_begin

// A point in a stream's order. The batch that will signal it may not be submitted yet.
struct Marker {
  CommandStream* stream = nullptr;
  uint64_t value = 0;      // timeline value; 0: always complete
  int32_t timestamp = -1;  // slot of a timestamp query, -1 without timing
};

// Something that a stream is to wait for, which another thread of the host has not recorded yet.
struct Arrival {
  std::function<bool()> ready;   // whether `arrive` would not block
  std::function<void()> arrive;  // blocks until it is recorded, then makes the stream wait for it
};

// The work before a stream: batches submitted and not finished, and the commands in these and recorded since.
struct StreamLoad {
  uint64_t batches, commands, limit;  // the limit is of batches
};

class CommandStream {
 public:
  static constexpr int kDefaultId = 0;
  // Streams 1..32 are the pool. A priority below 0 is high and takes a queue of high priority, if the device has one.
  // Creates the device on first use.
  static CommandStream& get(int device, int64_t id);
  static CommandStream* existing(int device, int64_t id) noexcept;  // null if nothing was recorded on it yet
  static int64_t next_pool_id(int device, int priority);
  // The id of the stream that captures of a device share: the pools never give it to anyone.
  static int64_t capture_id() noexcept;
  static int64_t private_id() noexcept;  // handed to no program, so never under capture; nor are the next three
  static int64_t transfer_id(bool to_host) noexcept;
  static int64_t collective_id() noexcept;
  static bool copies_beside_kernels(int device);  // those on the streams of transfers
  static int64_t last_id() noexcept;
  static bool has_high_priority(int64_t id) noexcept;

  int device_index() const;
  vulkan::Device& device() const;
  int64_t id() const;

  void dispatch(const vulkan::Pipeline& pipeline, const void* params, size_t params_bytes, const Access* accesses,
                size_t access_count, Grid grid, const Work& work);
  // Both are device addresses (of device or host-visible segments). Recorded and ordered like a dispatch.
  void copy(uint64_t dst, uint64_t src, uint64_t bytes);
  void fill(uint64_t dst, uint64_t bytes, uint32_t word);
  // Copies `host` before it returns: into the mapped allocation, if there is one and the stream is idle, else into
  // staging memory, from where a transfer is recorded. Work submitted later by any stream of the device runs after it.
  void upload(uint64_t dst, const void* host, uint64_t bytes);
  // Waits for everything recorded before, and for earlier uploads of other streams, then reads: from the mapped
  // allocation if there is one (of a GPU with memory of its own: if a few bytes are asked for), else from staging
  // memory, into which the device copies.
  void download(void* host, uint64_t src, uint64_t bytes);

  uint64_t flush();                 // submit what is recorded; returns the value it will signal
  void submit_recorded() noexcept;  // the same if there are commands; a failure is reported by the next call
  uint64_t pending_value();         // the value signalled once all recorded so far is done
  // Submits first when the value is still only recorded. But it does not wait for a pipeline: false if one is compiled.
  bool done(uint64_t value);
  // Submits and waits; polls before it sleeps; raises errors of commands (errors.h). Signals interrupt it.
  void wait(uint64_t value);
  void wait_quietly(uint64_t value);  // leaves errors of commands to the next wait
  void synchronize();
  // A call that submits beyond the limit (kMaxInFlight until this sets another) waits until no more are left than that.
  void limit_in_flight(uint64_t batches);
  StreamLoad load();
  bool idle();  // everything recorded so far has completed

  // `submit`: also submits the commands recorded before. Not with timing, which would split a measured range.
  Marker record(bool timing, bool submit = false);
  void wait_for(const Marker& marker);  // work recorded after this runs after the marker (any stream, any device)
  // Later commands of the stream run after what arrives. The host waits for that only when it must: before the stream's
  // next command is recorded, and before anything waits for a marker that was recorded after this call. An error of
  // `arrive` is thrown then. No lock is held meanwhile.
  void wait_later(Arrival arrival);
  static double elapsed_ms(const Marker& start, const Marker& end);
  void release(Marker& marker);  // gives a timestamp slot back

  // Labels around what is recorded in between, for debuggers of GPUs; nothing where none watches.
  void push_label(const char* name);
  void pop_label();

  // Graph capture: between begin and end, everything recorded goes to the graph and nothing runs.
  void capture_begin();
  std::shared_ptr<CapturedGraph> capture_end();
  void replay(CapturedGraph& graph);
  bool capturing() const;
  std::vector<std::string> kernels_in_flight() const;

  uint64_t error_address() const;  // the device's error record, for kernels that check indices

  explicit CommandStream(std::unique_ptr<StreamImpl> impl);
  ~CommandStream();

 private:
  friend struct StreamImpl;
  friend void synchronize_device(int device, bool arrivals);
  void await(uint64_t value);  // wait_quietly(), but the next submission recycles the batches, while the device works
  void await_arrivals();       // returns at once where there are none
  void await_arrivals_of(uint64_t value);  // those before a marker
  bool arrived() const;
  void raise_failure();               // of a deferred command
  // Until nothing before a value is deferred: other threads go on recording meanwhile, and signals end the wait.
  void await_pipelines(uint64_t value);
  bool submit_until(uint64_t value);  // true once the value is complete
  std::unique_ptr<StreamImpl> impl_;
};

// All streams of the device. Without `arrivals` a stream that awaits some is left as it is: for threads on which these
// may depend, and for those that hold locks.
void synchronize_device(int device, bool arrivals = true);
// Throws IndexError (vulkan/check.h) once, with kernel and index, when a kernel of this device reported one.
void raise_device_errors(int device);
}  // namespace aule::stream

namespace aule {
using stream::CommandStream;
}
