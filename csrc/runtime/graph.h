// A captured stretch of work with a private memory pool, for all versions of torch. torch.accelerator.Graph (2.12 and
// later), torch_aule._C.Graph and CapturedCall stand on it.
//
// Between capture_begin and capture_end the calling thread's current stream records into the graph, and nothing runs.
// One graph of a device is captured at a time. The pool's memory is kept until reset().
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <memory>
#include <string>

#include "runtime/generator_impl.h"
#include "stream/captured_graph.h"

namespace aule::stream {
class CapturedGraph;
class CommandStream;
}  // namespace aule::stream

namespace aule::runtime {

c10::MempoolId_t fresh_pool();
// Whether a graph that can still be replayed holds addresses of these bytes; yes while one is captured on the device.
bool in_a_graph(c10::DeviceIndex device, uint64_t address, uint64_t bytes);

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  void capture_begin(c10::MempoolId_t pool = {0, 0});  // {0, 0}: a pool of its own
  void capture_end();
  void check_captured() const;
  void replay();  // on the current stream
  // Waits for its replays, then gives the batches back; what lives in the pool stays. For destructors.
  void drop_commands() noexcept;
  // Waits for its replays, then gives batches and pool back. Ends a capture that is under way.
  void reset();

  c10::MempoolId_t pool() const { return pool_; }
  uint64_t random_steps() const { return capture_state_.offset; }  // of the generator's counter, for each replay
  bool writes(uint64_t address, uint64_t bytes) const;             // whether a command of the graph writes there
  stream::GraphCounts counts() const;
  void debug_dump(const std::string& path) const;  // the counts, as a line of text
  at::Tensor& zeros() { return zeros_; }

 private:
  static constexpr size_t kStateBytes = 16;
  GeneratorImpl& generator();

  c10::DeviceIndex device_ = 0;
  stream::CommandStream* stream_ = nullptr;
  c10::MempoolId_t pool_{0, 0};
  c10::DataPtr state_;  // {seed, offset} that the captured random kernels read
  PhiloxCapture capture_state_;
  std::shared_ptr<stream::CapturedGraph> graph_;
  bool capturing_ = false;
  at::Tensor zeros_;  // zeros_of_capture
};

}  // namespace aule::runtime
