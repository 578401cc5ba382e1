// The mapping of streams to the queues of a device. Pure.
#pragma once
#include <algorithm>
#include <cstdint>

namespace aule {

constexpr uint32_t kMaxQueues = 8;
constexpr float kNormalPriority = 0.5f, kHighPriority = 1.0f;  // Vulkan's scale of queues within one device

// The last queues have high priority. A device with one queue has no priorities.
constexpr uint32_t high_priority_queues(uint32_t queues) { return queues < 2 ? 0 : std::max(1u, queues / 4); }

// Of the family that only copies: one for each direction, as the engines behind them are.
constexpr uint32_t kMaxTransferQueues = 2;
constexpr uint32_t queue_of_transfers(uint32_t queues, bool to_host) { return to_host ? queues - 1 : 0; }

// The queue of a stream: the queues of its priority are used in turn.
constexpr uint32_t queue_of_stream(uint32_t queues, bool high, uint32_t turn) {
  const uint32_t last = high_priority_queues(queues), normal = queues - last;
  return high && last != 0 ? normal + turn % last : turn % normal;
}

}  // namespace aule
