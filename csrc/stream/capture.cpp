// Graphs: command buffers recorded once and submitted many times. Their parameter blocks stay in chunks that the graph
// owns. A replay is ordered after and before everything else on its stream by full barriers.
#include "stream/captured_graph.h"

#include <algorithm>
#include <set>

#include "core/per_device.h"
#include "stream/stream_impl.h"

namespace aule::stream {
namespace {

struct LiveGraphs {
  std::mutex mutex;
  std::set<const CapturedGraph*> captured;
  int under_way = 0;
};
LiveGraphs& graphs_of(int device) {
  static const PerDevice<LiveGraphs> all;
  return all[device];
}

}  // namespace

void CommandStream::capture_begin() {
  StreamImpl& s = *impl_;
  await_arrivals();
  reclaim_finished(s.d->index);
  std::lock_guard lock(s.mutex);
  s.d->check_alive();
  if (s.capture) throw vulkan::Error("a graph is already being captured on this stream");
  s.flush();
  s.capture_owner = std::make_shared<CapturedGraph>(s);
  {
    LiveGraphs& live = graphs_of(s.d->index);
    std::lock_guard live_lock(live.mutex);
    ++live.under_way;
  }
  s.capture = s.capture_owner.get();
  s.saved_hazards = s.hazards;
  s.hazards.clear();
  record_barrier(*s.d, s.target().cmd, kCompute | kTransfer, kCompute | kTransfer);
}

std::shared_ptr<CapturedGraph> CommandStream::capture_end() {
  StreamImpl& s = *impl_;
  std::lock_guard lock(s.mutex);
  if (!s.capture) throw vulkan::Error("no graph is being captured on this stream");
  std::shared_ptr<CapturedGraph> graph = std::move(s.capture_owner);
  s.capture_owner.reset();
  s.capture = nullptr;
  s.hazards = s.saved_hazards;
  {
    LiveGraphs& live = graphs_of(s.d->index);
    std::lock_guard live_lock(live.mutex);
    --live.under_way;
    live.captured.insert(graph.get());
  }
  end_batch(*s.d, *graph->batches.back());
  return graph;
}

void CommandStream::replay(CapturedGraph& graph) {
  await_arrivals();
  StreamImpl& s = *impl_;
  uint64_t submitted;
  {
    std::lock_guard lock(s.mutex);
    s.d->check_alive();
    s.refuse_capture("replaying a graph");
    if (graph.stream.d != s.d) throw vulkan::Error("the graph was captured on another device");
    const bool traced = tracing();
    if (traced) s.target();  // for its timestamp
    s.flush();
    for (Batch* b : graph.batches) s.submit(*b);
    if (traced) {
      const size_t commands = counts_of(graph).commands;
      Batch& after = s.target();
      if (after.trace) {
        after.trace->replay =
            s.traced(Traced::replay, "graph replay, " + std::to_string(commands) + " commands", commands);
      }
    }
    std::lock_guard graph_lock(graph.mutex);
    std::erase_if(graph.replays, [&](const auto& r) { return r.first == &s; });
    graph.replays.emplace_back(&s, s.submitted);
    s.hazards.touch_everything();
    submitted = s.submitted;
  }
  if (submitted > kMaxReplaysAhead) s.let_device_catch_up(submitted - kMaxReplaysAhead);
}

GraphCounts counts_of(const CapturedGraph& graph) {
  GraphCounts counts{.submissions = graph.batches.size()};
  for (const Batch* b : graph.batches) {
    counts.commands += b->commands;
    counts.transfers += b->transfers;
    counts.barriers += b->barriers;
  }
  return counts;
}

bool writes(const CapturedGraph& graph, uint64_t begin, uint64_t end) { return graph.written.overlaps(begin, end); }

void wait_for_replays(CommandStream& stream) {
  StreamImpl& s = StreamImpl::of(stream);
  uint64_t submitted;
  {
    std::lock_guard lock(s.mutex);
    submitted = s.submitted;
  }
  constexpr uint64_t kRoom = 16;  // submissions of one graph and of what its inputs need
  if (submitted + kRoom > kMaxReplaysAhead) s.wait_until(submitted + kRoom - kMaxReplaysAhead);
}

bool in_a_graph(int device, uint64_t begin, uint64_t end) {
  LiveGraphs& live = graphs_of(device);
  std::lock_guard lock(live.mutex);
  if (live.under_way > 0) return true;
  return std::any_of(live.captured.begin(), live.captured.end(),
                     [&](const CapturedGraph* graph) { return graph->used.overlaps(begin, end); });
}

CapturedGraph::~CapturedGraph() {
  {
    LiveGraphs& live = graphs_of(stream.d->index);
    std::lock_guard lock(live.mutex);
    live.captured.erase(this);
  }
  try {
    for (const auto& [where, value] : replays) {
      if (!stream.d->lost.load()) where->sleep_until(value);
    }
  } catch (...) {  // the device was lost, so nothing runs any more
  }
  for (Batch* b : batches) destroy_batch(*stream.d, b);
}

}  // namespace aule::stream
