// Events of the caching allocator, and the call stacks that asked for them: the last ones of a device.
//
// Off, the allocator looks at one flag, with relaxed loads. Call stacks are gathered before the allocator's lock is
// taken, since that takes Python's lock; they are read only when a snapshot is printed.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace aule::runtime {

using CallStack = std::shared_ptr<c10::GatheredContext>;
using GatherStack = CallStack (*)();

// Events that have a call stack: those of the memory in use, of allocations, and of frees too.
enum class StacksOf : uint8_t { nothing, live, allocations, all };

enum class MemoryAction : uint8_t { alloc, free_requested, free_completed, segment_alloc, segment_free, oom, snapshot };
inline constexpr const char* kMemoryActions[] = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"};

struct MemoryEvent {
  MemoryAction action;
  uint64_t address, bytes;  // of `oom` the free bytes, and those asked for
  c10::StreamId stream;
  c10::MempoolId_t pool;
  int64_t time_us;  // Unix time
  CallStack stack;
};

struct MemoryHistoryOptions {
  StacksOf stacks = StacksOf::all;
  GatherStack gather = nullptr;
  size_t max_events = 0;   // of each device; 0: stacks of the memory in use alone
  uint32_t skipped = 0;    // a bit for each action that is left out
  bool keep_past = false;  // events from before
};
void start_memory_history(const MemoryHistoryOptions& options);
void stop_memory_history();

extern std::atomic<bool> memory_history_kept;
inline bool keeps_memory_history() noexcept { return memory_history_kept.load(std::memory_order_relaxed); }
CallStack gather_stack(StacksOf least);  // null if fewer events have one
inline CallStack call_stack(StacksOf least) { return keeps_memory_history() ? gather_stack(least) : nullptr; }

// The last events of one device, under its allocator's lock.
class MemoryHistory {
 public:
  void add(MemoryAction action, uint64_t address, uint64_t bytes, c10::StreamId stream, c10::MempoolId_t pool,
           const CallStack& stack);
  std::vector<MemoryEvent> events();  // oldest first

 private:
  void forget_the_past();
  std::vector<MemoryEvent> ring_;
  size_t next_ = 0;         // of a full ring: the oldest
  uint64_t beginning_ = 0;  // number of the recording that the events belong to
};

}  // namespace aule::runtime
