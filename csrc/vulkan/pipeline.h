// Compute pipelines: one layout for all (push constants only; the loop guard's descriptor set on devices that need
// one), created on first use from a row of the kernel table and its specialization constants, with the driver's
// pipeline cache kept on disk. Threads compile them (compile_threads.h): a pipeline may be launched before it is ready.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/caps.h"
#include "vulkan/loader.h"

namespace aule::vulkan {

struct DeviceImpl;

// The size of push constants in the one layout: 128 bytes by Vulkan's promise, 256 where the device has them. Larger
// blocks go through the parameter ring.
inline uint32_t push_constant_bytes(const Caps& caps) { return caps.max_push_constant_bytes >= 256 ? 256 : 128; }

class PipelineStore;

struct PipelineRequest {
  const char* name;
  const unsigned char* spirv;
  size_t spirv_bytes;
  std::shared_ptr<const void> owner;  // of `spirv`; null if that lives for ever
  bool params_ring;
  uint32_t params_bytes;
  const uint32_t* constants;  // constant_id i = element i
  size_t constant_count;
  bool temporary;
};

// All that describes it is known at once, and does not change. Its handle comes from the compilation.
class Pipeline : public std::enable_shared_from_this<Pipeline> {
 public:
  Pipeline(PipelineStore& store, const PipelineRequest& request, uint32_t id);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;

  VkPipeline handle() const { return handle_.load(std::memory_order_acquire); }  // null until it is ready
  bool ready() const { return handle() != VK_NULL_HANDLE; }
  bool under_way() const { return state_.load(std::memory_order_acquire) == State::under_way; }
  // Has it compiled, unless it is or that is under way: by a thread that compiles, or before this returns where there
  // are none. Only then it raises why it could not be compiled. One that failed is tried again.
  void start() const;
  void settle() const;  // waits until no compilation is under way
  bool settle_for(std::chrono::milliseconds time) const;  // false if one still is
  void wait() const;    // likewise; raises why it could not be compiled

  std::string label;  // "softmax<C=float>(0,1)": debug labels, errors
  bool params_ring = false;
  bool loop_guard = false;  // it may write the loop guard's record
  uint32_t params_bytes = 0;
  uint32_t id = 0;  // dense, per process: the cost model's index
  // True for a kernel compiled at run time: recorded work holds it, and it is destroyed with its last holder. Others
  // stay.
  bool temporary = false;

 private:
  friend class PipelineStore;
  friend class CompileThreads;
  enum class State : uint8_t { idle, under_way, ready, failed };
  struct Outcome {
    VkPipeline handle = VK_NULL_HANDLE;
    VkResult result = VK_SUCCESS;
    std::string failure;  // of another kind than a result
  };
  void compile() const noexcept;
  void give_up() const noexcept;  // a compilation that nobody will make
  void end(Outcome outcome) const noexcept;

  PipelineStore& store_;
  const unsigned char* const spirv_;
  const size_t spirv_bytes_;
  const std::vector<uint32_t> constants_;
  mutable std::shared_ptr<const void> owner_;
  mutable std::atomic<VkPipeline> handle_{VK_NULL_HANDLE};
  mutable std::atomic<State> state_{State::idle};
  mutable Outcome outcome_;  // under the store's mutex
};

void finish_compilations();  // waits until no thread has a pipeline to compile

// The cost of compiling all pipelines of a device so far.
struct CompileTimes {
  uint64_t pipelines = 0;
  double driver_seconds = 0;  // in vkCreateComputePipelines, the sum over all threads
};

class PipelineStore {
 public:
  explicit PipelineStore(DeviceImpl& device);
  ~PipelineStore();
  std::shared_ptr<const Pipeline> create(const PipelineRequest& request);  // not compiled yet
  VkPipelineLayout layout() const { return layout_; }
  std::vector<std::string> labels() const;  // of those that live, in the order in which they were created
  CompileTimes times() const;
  void wait_idle();
  std::string file() const;  // empty: nothing is kept
  // Writes the cache file if something new was compiled; does not wait for what is being compiled; never throws.
  void save();

 private:
  friend class Pipeline;
  Pipeline::Outcome compile(const Pipeline& pipeline);
  void forget(const Pipeline& pipeline) noexcept;
  struct Disk;
  DeviceImpl& device_;
  const bool on_threads_;  // a launch leaves compilation to CompileThreads
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::unique_ptr<Disk> disk_;
  std::mutex outcome_mutex_;
  std::condition_variable settled_;  // when a compilation has ended
  std::atomic<uint64_t> compiled_{0}, driver_ns_{0};
};

}  // namespace aule::vulkan
