// Questions of the runtime about captured graphs, beside CommandStream's capture_begin, capture_end and replay.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aule::stream {

class CapturedGraph;
class CommandStream;

// Numbers of a replay.
struct GraphCounts {
  size_t commands = 0;                                  // dispatches, copies and fills
  size_t transfers = 0, barriers = 0, submissions = 0;  // transfers: copies and fills
};
GraphCounts counts_of(const CapturedGraph& graph);
bool writes(const CapturedGraph& graph, uint64_t begin, uint64_t end);  // whether a command writes into the range
// Whether a graph of the device that can still be replayed holds addresses of the range. Yes while one is captured.
bool in_a_graph(int device, uint64_t begin, uint64_t end);

// A loop of replays may be this many submissions ahead of the device.
inline constexpr uint64_t kMaxReplaysAhead = 256;
// Waits until a replay on `stream` would not wait. For callers that hold locks while they replay.
void wait_for_replays(CommandStream& stream);

}  // namespace aule::stream
