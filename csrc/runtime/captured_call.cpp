#include "runtime/captured_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/per_device.h"
#include "runtime/allocator.h"
#include "runtime/streams.h"
#include "stream/captured_graph.h"
#include "stream/command_stream.h"

namespace aule::runtime {

// The part that outlives the call while somebody holds an output.
struct CallMemory {
  struct Piece {
    void* address;
    size_t bytes;
  };
  Graph graph;
  std::vector<Piece> pieces;          // of outputs
  std::vector<c10::Storage> outputs;  // as captured; they keep the pieces
  std::atomic<int64_t> holders{1};    // the call, and outputs that were handed out and not freed
  std::mutex mutex;
  std::vector<c10::StreamId> other_streams;  // that may still use an output that is freed

  void release(int64_t count) {
    if (holders.fetch_sub(count, std::memory_order_acq_rel) == count && !in_bad_fork()) delete this;
  }
};

namespace {

// Scalars are always copied out: a loss that is kept until the next step would cost a second graph.
constexpr size_t kScalarBytes = 16;
bool is_copied_out(const CallMemory::Piece& piece, bool copies) { return copies || piece.bytes <= kScalarBytes; }

void release_output(void* context) { static_cast<CallMemory*>(context)->release(1); }

c10::Storage storage_of(c10::DataPtr memory, size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            std::move(memory), device_allocator(),
                                                            /*resizable=*/true));
}

uint64_t span_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<uint64_t>(last + 1) * tensor.itemsize();
}

}  // namespace

bool CapturedCall::Input::has_moved(const CallInput& input) const {
  if (kind == Kind::host) return input.number != number;
  return kind == Kind::address && input.tensor->const_data_ptr() != address;
}

CapturedCall::Layout CapturedCall::layout_of(const at::Tensor& tensor) {
  const Layout layout{static_cast<uint32_t>(layouts_.size()), static_cast<uint16_t>(tensor.dim()),
                      tensor.scalar_type()};
  layouts_.insert(layouts_.end(), tensor.sizes().begin(), tensor.sizes().end());
  layouts_.insert(layouts_.end(), tensor.strides().begin(), tensor.strides().end());
  return layout;
}

bool CapturedCall::is_laid_out(const at::Tensor& tensor, const Layout& layout) const {
  return tensor.scalar_type() == layout.dtype && tensor.sizes().equals(sizes_of(layout)) &&
         tensor.strides().equals(strides_of(layout));
}

// Not a view for autograd, as what a compiled function returns is none.
at::Tensor CapturedCall::tensor_over(c10::Storage storage, const Layout& layout, int64_t offset) const {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(layout.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_of(layout), strides_of(layout), offset);
  return tensor;
}

CapturedCall::CapturedCall(c10::DeviceIndex device, const CallInputs& inputs, const std::vector<bool>& by_address,
                           bool copies, const CapturedCall* like)
    : device_(device), copies_(copies), inputs_(inputs.size()), captured_(inputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& in = inputs_[i];
    in.number = inputs[i].number;
    if (inputs[i].tensor == nullptr) continue;
    const at::Tensor& tensor = *inputs[i].tensor;
    captured_[i] = tensor;
    in.layout = layout_of(tensor);
    in.address = tensor.const_data_ptr();
    const uint64_t bytes = span_bytes(tensor);
    in.kind = inputs[i].on_host ? Input::Kind::host
              : bytes == 0      ? Input::Kind::empty
              : by_address[i]   ? Input::Kind::address
                                : Input::Kind::copied;
    if (in.kind != Input::Kind::copied) continue;
    Copied& copied = copied_.emplace_back(Copied{.index = i, .memory = {}, .bytes = bytes});
    // An expanded tensor is its span. One with wide gaps is copied by elements.
    const auto strides = tensor.strides();
    const bool expanded = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
    copied.as_bytes = expanded || bytes <= 2 * static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
    if (like != nullptr) {
      for (const Copied& other : like->copied_)
        if (other.index == i && is_laid_out(other.memory, in.layout)) copied.memory = other.memory;
    }
    if (!copied.memory.defined()) {
      const at::Tensor flat = at::empty({static_cast<int64_t>(bytes / tensor.itemsize())}, tensor.options());
      copied.memory = tensor_over(flat.storage(), in.layout, 0);
    }
    captured_[i] = copied.memory;
  }
  memory_ = new CallMemory;
}

// Replays read the copied inputs, perhaps on another stream than the one that memory belongs to.
CapturedCall::~CapturedCall() {
  memory_->graph.drop_commands();
  memory_->release(1);
}

void CapturedCall::begin() { memory_->graph.capture_begin(); }

at::Tensor CapturedCall::input(size_t i) const { return captured_[i]; }

void CapturedCall::abandon() {
  try {
    memory_->graph.reset();
  } catch (...) {  // what stopped the capture is reported, not this
  }
  captured_.clear();
}

void CapturedCall::end(const std::vector<std::optional<at::Tensor>>& outputs) {
  memory_->graph.capture_end();
  for (Copied& c : copied_)
    c.written = memory_->graph.writes(reinterpret_cast<uint64_t>(c.memory.const_data_ptr()), c.bytes);
  std::vector<c10::Storage>& kept = memory_->outputs;
  for (const auto& tensor : outputs) {
    Output& out = outputs_.emplace_back();
    if (!tensor.has_value() || !tensor->defined()) continue;
    const bool host_scalar = tensor->is_cpu() && tensor->dim() == 0;
    TORCH_CHECK(host_scalar || (tensor->is_privateuseone() && tensor->get_device() == device_ &&
                                tensor->layout() == at::kStrided && !tensor->is_conj() && !tensor->is_neg()),
                "an output is on ", tensor->device(), ", or has a layout that cannot be handed out again");
    out.layout = layout_of(*tensor);
    out.offset = tensor->storage_offset();
    const c10::Storage& storage = tensor->storage();
    const auto input = std::find_if(captured_.begin(), captured_.end(), [&](const at::Tensor& t) {
      return t.defined() && t.storage().is_alias_of(storage);
    });
    if (input != captured_.end()) {
      out.kind = Output::Kind::input;
      out.index = static_cast<uint32_t>(input - captured_.begin());
      out.whole = input->is_same(*tensor);
      out.offset -= input->storage_offset();
    } else if (!host_scalar && (storage.nbytes() == 0 || is_of_pool(storage.data_ptr(), memory_->graph.pool()))) {
      out.kind = Output::Kind::pool;
      const auto found =
          std::find_if(kept.begin(), kept.end(), [&](const c10::Storage& s) { return s.is_alias_of(storage); });
      out.index = static_cast<uint32_t>(found - kept.begin());
      if (found == kept.end()) {
        kept.push_back(storage);
        memory_->pieces.push_back({storage.mutable_data(), storage.nbytes()});
      }
    } else {
      has_host_output_ |= host_scalar;
      out.kind = Output::Kind::other;
      out.index = static_cast<uint32_t>(others_.size());
      others_.push_back(*tensor);
    }
  }
  captured_.clear();
}

CapturedCall::Fit CapturedCall::fits(const CallInputs& inputs) const {
  if (inputs.size() != inputs_.size()) return Fit::none;
  Fit fit = Fit::whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs_[i];
    const at::Tensor* tensor = inputs[i].tensor;
    if ((tensor == nullptr) != (in.kind == Input::Kind::number)) return Fit::none;
    if (tensor == nullptr) {
      if (inputs[i].number != in.number) return Fit::none;
      continue;
    }
    if (inputs[i].on_host != (in.kind == Input::Kind::host) || !is_laid_out(*tensor, in.layout)) return Fit::none;
    if (in.has_moved(inputs[i])) fit = Fit::moved;
  }
  return fit;
}

std::vector<size_t> CapturedCall::moved(const CallInputs& inputs) const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].has_moved(inputs[i])) indices.push_back(i);
  return indices;
}

bool CapturedCall::draws() const { return memory_->graph.random_steps() != 0; }
bool CapturedCall::is_free() const { return copies_ || outputs_alive() == 0; }
int64_t CapturedCall::outputs_alive() const { return memory_->holders.load(std::memory_order_acquire) - 1; }
size_t CapturedCall::commands() const { return memory_->graph.counts().commands; }
uint64_t CapturedCall::pool_bytes() const { return bytes_of_pool(device_, memory_->graph.pool()); }

void CapturedCall::order_after_other_streams(stream::CommandStream& stream) {
  static const PerDevice<std::atomic<stream::CommandStream*>> latest;  // that replayed a call of the device
  const auto wait_for = [&](stream::CommandStream* other) {
    if (other != nullptr && other != &stream && !other->capturing())
      stream.wait_for(other->record(/*timing=*/false, /*submit=*/true));
  };
  wait_for(latest[device_].exchange(&stream));
  std::vector<c10::StreamId> others;
  {
    std::lock_guard lock(memory_->mutex);
    others.swap(memory_->other_streams);
  }
  for (c10::StreamId id : others) wait_for(stream::CommandStream::existing(device_, id));
}

// Memory for this replay's outputs. Copies are recorded after the graph.
std::vector<c10::Storage> CapturedCall::hand_out(stream::CommandStream& stream) {
  struct Holders {  // of outputs that are still to be made
    CallMemory& memory;
    int64_t left = 0;
    ~Holders() {
      if (left != 0) memory.release(left);
    }
  } holders{*memory_};
  const c10::Device device(c10::DeviceType::PrivateUse1, device_);
  const auto& pieces = memory_->pieces;
  holders.left = std::count_if(pieces.begin(), pieces.end(),
                               [this](const CallMemory::Piece& p) { return !is_copied_out(p, copies_); });
  memory_->holders.fetch_add(holders.left, std::memory_order_relaxed);
  std::vector<c10::Storage> storages;
  storages.reserve(pieces.size());
  for (const CallMemory::Piece& piece : pieces) {
    if (!is_copied_out(piece, copies_)) {
      --holders.left;
      storages.push_back(storage_of({piece.address, memory_, &release_output, device}, piece.bytes));
      continue;
    }
    c10::DataPtr fresh(nullptr, device);
    if (piece.bytes != 0) {
      fresh = device_allocator()->allocate(piece.bytes);
      stream.copy(reinterpret_cast<uint64_t>(fresh.get()), reinterpret_cast<uint64_t>(piece.address), piece.bytes);
    }
    storages.push_back(storage_of(std::move(fresh), piece.bytes));
  }
  return storages;
}

void CapturedCall::Copied::copy(stream::CommandStream& stream, const at::Tensor& to, const at::Tensor& from) const {
  if (as_bytes) {
    stream.copy(reinterpret_cast<uint64_t>(to.mutable_data_ptr()), reinterpret_cast<uint64_t>(from.const_data_ptr()),
                bytes);
  } else {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    at::Tensor(to).copy_(from);
  }
}

std::vector<at::Tensor> CapturedCall::replay(const CallInputs& inputs) {
  const stream::Uninterrupted whole;  // what the graph has written must reach the inputs
  auto& stream = current_stream(device_);
  order_after_other_streams(stream);
  for (const Copied& c : copied_) c.copy(stream, c.memory, *inputs[c.index].tensor);
  memory_->graph.replay();
  for (const Copied& c : copied_)
    if (c.written) c.copy(stream, *inputs[c.index].tensor, c.memory);
  const std::vector<c10::Storage> storages = hand_out(stream);
  std::vector<at::Tensor> outputs(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& out = outputs_[i];
    switch (out.kind) {
      case Output::Kind::none: break;
      case Output::Kind::other: outputs[i] = others_[out.index]; break;
      case Output::Kind::pool: outputs[i] = tensor_over(storages[out.index], out.layout, out.offset); break;
      case Output::Kind::input: {
        const at::Tensor& alias = *inputs[out.index].tensor;
        outputs[i] = out.whole ? alias : tensor_over(alias.storage(), out.layout, alias.storage_offset() + out.offset);
      }
    }
  }
  return outputs;
}

bool is_output_of_call(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &release_output;
}

void wait_for_replays(c10::DeviceIndex device) { stream::wait_for_replays(current_stream(device)); }

bool record_stream_of_output(const c10::DataPtr& data, c10::StreamId stream) {
  if (data.get_deleter() != &release_output) return false;
  auto* memory = static_cast<CallMemory*>(data.get_context());
  std::lock_guard lock(memory->mutex);
  auto& others = memory->other_streams;
  if (std::find(others.begin(), others.end(), stream) == others.end()) others.push_back(stream);
  return true;
}

}  // namespace aule::runtime
