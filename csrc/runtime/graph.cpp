#include "runtime/graph.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <fstream>
#include <mutex>

#include "core/per_device.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"
#include "runtime/streams.h"
#include "stream/captured_graph.h"
#include "stream/command_stream.h"
#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#endif

namespace aule::runtime {

namespace {
// The graph that is captured on a device.
const PerDevice<std::atomic<Graph*>> captured_now;
}  // namespace

at::Tensor* zeros_of_capture(c10::DeviceIndex device) {
  Graph* graph = captured_now[device];
  return graph != nullptr && is_capturing(device) ? &graph->zeros() : nullptr;
}

c10::MempoolId_t fresh_pool() {
  static std::atomic<c10::CaptureId_t> next{1};
  return {next++, 0};
}

Graph::~Graph() {
  if (in_bad_fork()) return;
  try {
    reset();
  } catch (...) {  // a lost device; what a kernel reported was for those who wait, not for a destructor
  }
}

GeneratorImpl& Graph::generator() {
  return *static_cast<GeneratorImpl*>(default_generator(device_).unsafeGetGeneratorImpl());
}

void Graph::capture_begin(c10::MempoolId_t pool) {
  TORCH_CHECK(!capturing_ && graph_ == nullptr, "Graph: already captured; call reset() first");
  device_ = current_device();
  stream_ = &current_stream();
  auto& gen = generator();
  TORCH_CHECK(gen.capture_ == nullptr, "Graph: another graph is being captured on aule:", static_cast<int>(device_));
  if (state_.get() == nullptr) state_ = device_allocator()->allocate(kStateBytes);
  capture_state_ = {stream_, reinterpret_cast<uint64_t>(state_.get()), 0};
  stream_->capture_begin();
  pool_ = pool == c10::MempoolId_t{0, 0} ? fresh_pool() : pool;
  begin_private_pool(device_, pool_, stream_->id());
  gen.capture_ = &capture_state_;
  captured_now[device_] = this;
  capturing_ = true;
}

void Graph::capture_end() {
  TORCH_CHECK(capturing_, "Graph: capture_end without capture_begin");
  capturing_ = false;
  captured_now[device_] = nullptr;
  generator().capture_ = nullptr;
  end_private_pool(device_, stream_->id());
  graph_ = stream_->capture_end();
  check_captured();
}

void Graph::check_captured() const { TORCH_CHECK(graph_ != nullptr, "Graph: nothing was captured"); }

void Graph::replay() {
  check_captured();
  auto& stream = current_stream(device_);
  TORCH_CHECK(!stream.capturing(), "Graph: a graph cannot be replayed while another one is being captured");
  if (capture_state_.offset != 0) {
    // Fresh numbers on each replay: the kernels add this base to their captured offsets.
    uint64_t words[2];
    {
      auto& gen = generator();
      std::lock_guard lock(gen.mutex_);
      words[0] = gen.current_seed();
      words[1] = gen.get_offset();
      gen.set_offset(words[1] + capture_state_.offset);
    }
    stream.upload(capture_state_.state_address, words, sizeof words);
  }
  stream.replay(*graph_);
}

void Graph::drop_commands() noexcept {
  if (!in_bad_fork()) graph_.reset();
}

void Graph::reset() {
  if (capturing_) capture_end();
  graph_.reset();
  zeros_.reset();
  if (pool_ != c10::MempoolId_t{0, 0}) release_private_pool(device_, pool_);
  pool_ = {0, 0};
  capture_state_.offset = 0;
}

bool in_a_graph(c10::DeviceIndex device, uint64_t address, uint64_t bytes) {
  return stream::in_a_graph(device, address, address + bytes);
}

bool Graph::writes(uint64_t address, uint64_t bytes) const {
  return graph_ != nullptr && stream::writes(*graph_, address, address + bytes);
}

stream::GraphCounts Graph::counts() const {
  return graph_ == nullptr ? stream::GraphCounts{} : stream::counts_of(*graph_);
}

void Graph::debug_dump(const std::string& path) const {
  std::ofstream out(path);
  TORCH_CHECK(out.good(), "Graph: cannot write ", path);
  const stream::GraphCounts n = counts();
  out << "aule graph of " << n.commands << " commands, " << n.transfers << " of them copies and fills, " << n.barriers
      << " barriers, " << n.submissions << " submissions, random counter steps per replay " << random_steps() << "\n";
}

#if __has_include(<ATen/core/GraphImplInterface.h>)
namespace {

// torch.accelerator.Graph.
class AcceleratorGraph final : public at::GraphImplInterface {
 public:
  explicit AcceleratorGraph(const at::GraphImplArgs& args) { (void)args; }

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph_.capture_begin(pool); }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override { graph_.check_captured(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  Graph graph_;
};

}  // namespace
#endif

}  // namespace aule::runtime

#if __has_include(<ATen/core/GraphImplInterface.h>)
namespace at {
using AuleGraph = aule::runtime::AcceleratorGraph;
REGISTER_GRAPH_IMPL(AULE, AuleGraph)
}  // namespace at
#endif
