// One captured call of a compiled function (torch.compile's mode="reduce-overhead"): the inputs that it fits, the
// graph, and the outputs, which live in the graph's pool.
//
// Inputs: numbers and the sizes and strides of tensors must be those of the capture. A tensor is either taken by its
// address, which must be that of the capture too, or copied into memory of the call's before each replay, and back if
// the graph writes it. A scalar tensor on the host is its value, which kernels have among their parameters.
// Outputs: a replay overwrites those of the one before. So each is handed out as a new tensor, and the deleter of its
// memory counts it out: a call is free again once nobody holds an output, or a view of one. Scalars are
// copied. A call that `copies` hands out copies of all and is always free.
// Threads: the caller sees to it that one thread at a time uses a call (Python's interpreter lock). Outputs may be
// freed anywhere. Replays of a device on different streams are ordered here.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "runtime/graph.h"

namespace aule::runtime {

// A tensor that the caller keeps alive, or a number.
struct CallInput {
  const at::Tensor* tensor = nullptr;
  int64_t number = 0;    // also the bits of a scalar on the host
  bool on_host = false;  // the tensor
};
using CallInputs = std::vector<CallInput>;

struct CallMemory;

class CapturedCall {
 public:
  enum class Fit { none, moved, whole };  // moved: all but addresses and scalars on the host

  // `like`: an earlier call of the same function, whose memory for copied inputs this one may use too; or null.
  CapturedCall(c10::DeviceIndex device, const CallInputs& inputs, const std::vector<bool>& by_address, bool copies,
               const CapturedCall* like);
  ~CapturedCall();
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;

  // A capture is: begin, the function called with these inputs, end. After abandon() the call is of no use.
  void begin();
  at::Tensor input(size_t i) const;  // undefined for a number
  void end(const std::vector<std::optional<at::Tensor>>& outputs);
  void abandon();

  Fit fits(const CallInputs& inputs) const;
  std::vector<size_t> moved(const CallInputs& inputs) const;  // indices of the inputs that moved
  bool is_free() const;
  int64_t outputs_alive() const;
  bool copies() const { return copies_; }
  // An output on the host names the graph's random state, which is that of the latest replay: no copy would keep it.
  bool names_random_state() const { return has_host_output_ && draws(); }
  c10::DeviceIndex device() const { return device_; }
  size_t commands() const;
  uint64_t pool_bytes() const;  // of driver memory

  // Undefined where the capture had no tensor.
  std::vector<at::Tensor> replay(const CallInputs& inputs);

 private:
  // The rows are small and lie together: a replay is mostly a walk over memory that has left the caches.
  struct Layout {
    uint32_t at = 0;  // of the sizes in layouts_; the strides follow them
    uint16_t dim = 0;
    c10::ScalarType dtype = c10::ScalarType::Float;
  };
  struct Input {
    enum class Kind : uint8_t { number, host, empty, address, copied } kind = Kind::number;
    Layout layout;
    int64_t number = 0;  // also the bits of a scalar on the host
    const void* address = nullptr;
    bool has_moved(const CallInput& input) const;
  };
  struct Copied {
    size_t index;  // of the input
    at::Tensor memory;
    uint64_t bytes;        // from the first element to the end of the last
    bool as_bytes = true;  // else by elements
    bool written = false;  // the graph writes it, so it is copied back
    void copy(stream::CommandStream& stream, const at::Tensor& to, const at::Tensor& from) const;
  };
  struct Output {
    enum class Kind : uint8_t { none, pool, input, other } kind = Kind::none;
    bool whole = false;  // the input itself
    Layout layout;
    uint32_t index = 0;  // of the piece of memory, of the input, or in others_
    int64_t offset = 0;  // in elements; of an input's alias: beyond the input's
  };
  at::IntArrayRef sizes_of(const Layout& l) const { return {layouts_.data() + l.at, l.dim}; }
  at::IntArrayRef strides_of(const Layout& l) const { return {layouts_.data() + l.at + l.dim, l.dim}; }
  Layout layout_of(const at::Tensor& tensor);
  bool is_laid_out(const at::Tensor& tensor, const Layout& layout) const;
  at::Tensor tensor_over(c10::Storage storage, const Layout& layout, int64_t offset) const;
  void order_after_other_streams(stream::CommandStream& stream);
  std::vector<c10::Storage> hand_out(stream::CommandStream& stream);

  bool draws() const;

  c10::DeviceIndex device_;
  bool copies_, has_host_output_ = false;
  std::vector<Input> inputs_;
  std::vector<Copied> copied_;
  std::vector<Output> outputs_;
  std::vector<int64_t> layouts_;
  std::vector<at::Tensor> others_;    // outputs in memory of others: constants, scalars on the host
  std::vector<at::Tensor> captured_;  // while capturing: the inputs
  CallMemory* memory_;
};

// Whether the memory is an output of a captured call: its address comes back, as that call is replayed.
bool is_output_of_call(const at::Tensor& tensor);
// Waits for the current stream of the device if a replay would wait, since many have been submitted.
void wait_for_replays(c10::DeviceIndex device);
// For the allocator: `stream` uses an output of a captured call. False if the memory is something else.
bool record_stream_of_output(const c10::DataPtr& memory, c10::StreamId stream);

}  // namespace aule::runtime
