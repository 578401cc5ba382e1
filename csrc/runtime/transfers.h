// Copies between the host and a device beside its other work: in order of priority, in pieces, on streams of their own.
//
// A piece is staged through pinned memory unless the tensor on the host is pinned. At most `depth` pieces of a
// direction are on the device; after each the transfer of the highest priority goes on. Transfers move on in the calls
// below, none of which waits for the device but `wait`. Threads: every member takes the engine's mutex. Callers hold no
// lock that a wait for the device may want.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "stream/command_stream.h"

namespace aule::runtime {

enum class TransferState : uint8_t { queued, running, completed, cancelled };
inline constexpr const char* kTransferStates[] = {"QUEUED", "RUNNING", "COMPLETED", "CANCELLED"};
enum class Direction : uint8_t { to_device, to_host };
inline constexpr const char* kDirections[] = {"to_device", "to_host"};

struct TransferStats {
  uint64_t queued = 0, running = 0, completed = 0, cancelled = 0, bytes = 0, deepest = 0;
  double seconds = 0;  // in which pieces were on the device, as far as calls have looked
};

class TransferEngine {
 public:
  TransferEngine(c10::DeviceIndex device, uint64_t piece_bytes, uint64_t depth);
  ~TransferEngine();

  // Behind the work that the current stream has been given. Both tensors are kept until it has ended.
  int64_t enqueue(const at::Tensor& dst, const at::Tensor& src, int priority, int64_t owner);
  bool cancel(int64_t id);  // not once a piece of it was issued
  TransferState state(int64_t id);
  void wait(int64_t id);
  void synchronize();
  void advance();
  uint64_t pending(int64_t owner);  // transfers that have not ended
  TransferStats stats(Direction direction);

 private:
  struct Transfer {
    at::Tensor dst, src;
    Direction direction;
    int priority;
    int64_t owner;
    stream::Marker after;
    uint64_t bytes, issued = 0, done = 0;
    TransferState state = TransferState::queued;
  };
  struct Piece {
    int64_t transfer;
    uint64_t offset, bytes, value;  // of its stream
    at::Tensor staging;             // undefined where the host's tensor is pinned
  };
  struct DirectionQueue {
    stream::CommandStream* stream = nullptr;
    std::vector<int64_t> waiting;  // with bytes to issue, by priority, then by age
    std::deque<Piece> flying;
    std::vector<at::Tensor> spare;  // staging
    std::chrono::steady_clock::time_point busy_since;
    TransferStats stats;
  };
  DirectionQueue& queue(Direction direction) { return queues_[static_cast<size_t>(direction)]; }
  void move_on();  // these three with the mutex
  void reap(DirectionQueue& queue);
  void issue(DirectionQueue& queue);
  void retire(int64_t id);

  c10::DeviceIndex device_;
  uint64_t piece_bytes_, depth_;
  std::mutex mutex_;
  std::array<DirectionQueue, 2> queues_;
  std::map<int64_t, Transfer> transfers_;   // that have not ended
  std::map<int64_t, TransferState> ended_;  // the latest of them
  int64_t last_id_ = 0;
};

}  // namespace aule::runtime
