#include "runtime/memory_history.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>

namespace aule::runtime {
namespace {

// Each is read alone: events at the moment of a change may follow the old options.
std::atomic<StacksOf> g_stacks{StacksOf::nothing};
std::atomic<GatherStack> g_gather{nullptr};
std::atomic<size_t> g_max_events{0};
std::atomic<uint32_t> g_skipped{0};
std::atomic<uint64_t> g_beginning{0};

}  // namespace

std::atomic<bool> memory_history_kept{false};

void start_memory_history(const MemoryHistoryOptions& options) {
  g_stacks = options.stacks;
  g_gather = options.gather;
  g_max_events = options.max_events;
  g_skipped = options.skipped;
  if (!options.keep_past) ++g_beginning;
  memory_history_kept = true;
}

void stop_memory_history() {
  memory_history_kept = false;
  ++g_beginning;
}

CallStack gather_stack(StacksOf least) {
  const GatherStack gather = g_gather;
  return gather == nullptr || g_stacks.load() < least ? nullptr : gather();
}

void MemoryHistory::forget_the_past() {
  const uint64_t beginning = g_beginning;
  if (beginning == beginning_) return;
  beginning_ = beginning;
  ring_ = {};
  next_ = 0;
}

void MemoryHistory::add(MemoryAction action, uint64_t address, uint64_t bytes, c10::StreamId stream,
                        c10::MempoolId_t pool, const CallStack& stack) {
  if (!keeps_memory_history() || (g_skipped.load() >> static_cast<uint32_t>(action) & 1) != 0) return;
  forget_the_past();
  const size_t max = g_max_events;
  if (ring_.size() > max || (ring_.size() < max && next_ != 0)) {  // in order, to cut its oldest or to grow it
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(next_), ring_.end());
    if (ring_.size() > max) ring_.erase(ring_.begin(), ring_.end() - static_cast<std::ptrdiff_t>(max));
    next_ = 0;
  }
  if (max == 0) return;
  MemoryEvent event{action, address, bytes, stream, pool, c10::getTime() / 1000, nullptr};
  if (g_stacks.load() >= StacksOf::allocations) event.stack = stack;
  if (ring_.size() < max) {
    ring_.push_back(std::move(event));
  } else {
    ring_[next_] = std::move(event);
    next_ = (next_ + 1) % max;
  }
}

std::vector<MemoryEvent> MemoryHistory::events() {
  forget_the_past();
  std::vector<MemoryEvent> in_order = ring_;
  std::rotate(in_order.begin(), in_order.begin() + static_cast<std::ptrdiff_t>(next_), in_order.end());
  return in_order;
}

}  // namespace aule::runtime
