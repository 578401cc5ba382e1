// The work of devices while a trace was taken: each command of every stream, with its time. And what the host did for
// them.
//
// A batch that begins under a trace has a timestamp at its beginning and one after each command. A command's time is
// that between its timestamp and the one before. So commands that overlap on the device share their time in the order
// in which they end, and the times of a stream add up to the time in which the device worked for it.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/access.h"

namespace aule::stream {

// Things that PyTorch's profiler numbers: the operator that runs on this thread, and the user's annotation around
// it.
struct TraceIds {
  uint64_t operation = 0, annotation = 0;
};
TraceIds& trace_ids() noexcept;  // of this thread

enum class Traced : uint8_t { kernel, copy, fill, replay, host };

struct TraceEntry {
  Traced what = Traced::kernel;
  std::string name;
  TraceIds ids;
  int device = 0;
  int64_t stream = 0;
  int64_t thread = 0;                // of a host entry: the system's number
  int64_t begin_ns = 0, end_ns = 0;  // Unix time
  uint64_t bytes = 0;                // read and written; of a copy: copied; of a replay: its commands
  Grid grid{0, 0, 0};
  double flops = 0;  // of a kernel, where its planner knows them; 0: unknown
  DType dtype = DType::f32;
  std::string source;          // of a kernel: the file of generated code that it is from
  const char* direction = "";  // of a copy
};

struct TraceClock {
  int device;
  bool calibrated;       // by the driver, else by a submission between two looks at the host's clock
  int64_t error_ns = 0;  // at most
};

struct Trace {
  std::vector<TraceEntry> entries;
  std::vector<TraceClock> clocks;
  uint64_t dropped = 0;  // commands of batches with more than their timestamps can tell
};

extern std::atomic<bool> trace_taken;
inline bool tracing() noexcept { return trace_taken.load(std::memory_order_relaxed); }
// One trace at a time. `start` waits for what devices have to do; `stop` too, and returns what they did in between.
void start_trace();
Trace stop_trace();

// A span of the host, if a trace is taken.
class HostSpan {
 public:
  explicit HostSpan(const char* name) noexcept : name_(tracing() ? name : nullptr), begin_(name_ ? now() : 0) {}
  ~HostSpan() {
    if (name_ != nullptr) end();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  static int64_t now() noexcept;
  void end() noexcept;
  const char* name_;
  int64_t begin_;
};

}  // namespace aule::stream
