// Commands that wait for a pipeline which is still being compiled (vulkan/compile_threads.h), and what was asked of the
// stream behind them: plain data, in order. A stream defers commands instead of recording them while its first one is
// not ready; recording them later takes the same way through hazards, estimates and batches. It goes on
//  - without a wait, at every later call: what is ready by then is recorded and submitted when due;
//  - with a wait for each pipeline, when recorded work must be submitted.
// So whatever is launched between two waits of the host is compiled at once, on all threads.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/access.h"
#include "stream/trace.h"
#include "vulkan/loader.h"
#include "vulkan/pipeline.h"

namespace aule::stream {

struct Deferred {
  enum class What : uint8_t { dispatch, copy, fill, upload, timestamp, marker, wait, begin_label, end_label };

  What what;
  TraceIds ids;  // of the thread that asked

  // Of a dispatch.
  const vulkan::Pipeline* pipeline = nullptr;
  std::shared_ptr<const vulkan::Pipeline> held;  // a temporary one
  std::vector<Access> accesses;
  Grid grid;
  Work work;           // its source is the text below
  std::string source;  // also a label's text
  bool has_source = false;
  bool may_write_error = false;

  std::vector<char> bytes;  // params; of an upload: what it copies
  uint64_t dst = 0, src = 0, size = 0;
  uint32_t word = 0;  // of a fill

  int32_t slot = 0;                       // of a timestamp
  uint64_t value = 0;                     // of a marker: what the batch with all before it signals; of a wait
  VkSemaphore timeline = VK_NULL_HANDLE;  // of a wait
};

// At these numbers of deferred commands, and of bytes of their uploads, a launch waits for the first one.
constexpr size_t kMostDeferred = 1024;
constexpr uint64_t kMostDeferredBytes = 64 << 20;
// Values of the timeline between two markers that are deferred: more than the batches that the commands between them
// can take, each cut into 64 parts at most.
constexpr uint64_t kMarkerGap = kMostDeferred * 128;

}  // namespace aule::stream
