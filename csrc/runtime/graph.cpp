// torch.accelerator.Graph (torch 2.12 and later): re-submittable command buffers with a private memory pool.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>

#include "runtime/allocator.h"
#include "runtime/generator_impl.h"
#include "runtime/streams.h"
#include "stream/command_stream.h"

namespace aule::runtime {
namespace {

c10::MempoolId_t fresh_pool() {
  static std::atomic<c10::CaptureId_t> next{1};
  return {next++, 0};
}

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& args) { (void)args; }
  ~Graph() override {
    if (in_bad_fork()) return;
    try {
      reset();
    } catch (...) {  // a lost device; what a kernel reported was for those who wait, not for a destructor
    }
  }

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override {
    TORCH_CHECK(!capturing_ && graph_ == nullptr, "Graph: already captured; call reset() first");
    device_ = current_device();
    stream_ = &current_stream();
    pool_ = pool == c10::MempoolId_t{0, 0} ? fresh_pool() : pool;
    if (state_.get() == nullptr) state_ = device_allocator()->allocate(kStateBytes);
    capture_state_ = {reinterpret_cast<uint64_t>(state_.get()), 0};
    stream_->capture_begin();
    begin_private_pool(device_, pool_, stream_->id());
    generator().capture_ = &capture_state_;
    capturing_ = true;
  }

  void capture_end() override {
    TORCH_CHECK(capturing_, "Graph: capture_end without capture_begin");
    capturing_ = false;
    generator().capture_ = nullptr;
    end_private_pool(device_, stream_->id());
    graph_ = stream_->capture_end();
    TORCH_CHECK(graph_ != nullptr, "Graph: capture failed");
  }

  void instantiate() override { TORCH_CHECK(graph_ != nullptr, "Graph: nothing was captured"); }

  void replay() override {
    TORCH_CHECK(graph_ != nullptr, "Graph: nothing was captured");
    auto& stream = current_stream(device_);
    if (capture_state_.offset != 0) {
      // Fresh numbers on each replay: the kernels add this base to their captured offsets.
      auto& gen = generator();
      std::lock_guard lock(gen.mutex_);
      const uint64_t words[2] = {gen.current_seed(), gen.get_offset()};
      gen.set_offset(gen.get_offset() + capture_state_.offset);
      stream.upload(capture_state_.state_address, words, sizeof words);
    }
    stream.replay(*graph_);
  }

  void reset() override {
    if (capturing_) capture_end();
    if (graph_ != nullptr) {
      stream::synchronize_device(device_);
      graph_.reset();
    }
    if (pool_ != c10::MempoolId_t{0, 0}) release_private_pool(device_, pool_);
    pool_ = {0, 0};
  }

  c10::MempoolId_t pool() const override { return pool_; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    std::ofstream out(path);
    TORCH_CHECK(out.good(), "Graph: cannot write ", path);
    out << "aule graph on device " << static_cast<int>(device_) << ", random counter steps per replay "
        << capture_state_.offset << "\n";
  }

 private:
  static constexpr size_t kStateBytes = 16;
  GeneratorImpl& generator() {
    return *static_cast<GeneratorImpl*>(default_generator(device_).unsafeGetGeneratorImpl());
  }

  c10::DeviceIndex device_ = 0;
  stream::CommandStream* stream_ = nullptr;
  c10::MempoolId_t pool_{0, 0};
  c10::DataPtr state_;  // {seed, offset} that the captured random kernels read
  PhiloxCapture capture_state_;
  std::shared_ptr<stream::CapturedGraph> graph_;
  bool capturing_ = false;
};

}  // namespace
}  // namespace aule::runtime

namespace at {
using AuleGraph = aule::runtime::Graph;
REGISTER_GRAPH_IMPL(AULE, AuleGraph)
}  // namespace at
#endif
