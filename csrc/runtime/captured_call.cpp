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

// What outlives the call while somebody holds an output: each output's memory has a reference.
struct CallMemory final : c10::intrusive_ptr_target {
  Graph graph;
  std::vector<c10::Storage> outputs;  // as captured; the pool's
  std::atomic<int64_t> alive{0};      // outputs that were handed out and not freed
  std::mutex mutex;
  std::vector<c10::StreamId> other_streams;  // that may still use an output that is freed
};

namespace {

// Outputs of this size are always copied: a loss that is kept until the next step would cost a second graph.
constexpr size_t kSmallBytes = 256;

void release_output(void* context) {
  auto* memory = static_cast<CallMemory*>(context);
  memory->alive.fetch_sub(1, std::memory_order_acq_rel);
  if (!in_bad_fork()) c10::intrusive_ptr<CallMemory>::reclaim(memory);
}

c10::Storage storage_of(c10::DataPtr memory, size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            std::move(memory), device_allocator(),
                                                            /*resizable=*/true));
}

// Not a view for autograd, as what a compiled function returns is none.
at::Tensor tensor_over(c10::Storage storage, caffe2::TypeMeta dtype, at::IntArrayRef sizes, at::IntArrayRef strides,
                       int64_t offset) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

uint64_t span_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<uint64_t>(last + 1) * tensor.itemsize();
}

}  // namespace

bool CapturedCall::Input::same_layout(const at::Tensor& tensor) const {
  return tensor.sizes().equals(sizes) && tensor.strides().equals(strides) && tensor.scalar_type() == dtype;
}

bool CapturedCall::Input::has_moved(const CallInput& input) const {
  return on_host ? input.number != number : by_address && input.tensor->const_data_ptr() != address;
}

CapturedCall::CapturedCall(c10::DeviceIndex device, const CallInputs& inputs, const std::vector<bool>& by_address,
                           bool copies, const CapturedCall* like)
    : device_(device), copies_(copies), memory_(c10::make_intrusive<CallMemory>()) {
  inputs_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& in = inputs_[i];
    in.number = inputs[i].number;
    if (inputs[i].tensor == nullptr) continue;
    const at::Tensor& tensor = *inputs[i].tensor;
    in.is_tensor = true;
    in.sizes = tensor.sizes().vec();
    in.strides = tensor.strides().vec();
    in.dtype = tensor.scalar_type();
    in.on_host = inputs[i].on_host;
    if (in.on_host) {
      in.given = tensor;
      continue;
    }
    in.bytes = span_bytes(tensor);
    in.address = tensor.const_data_ptr();
    in.by_address = by_address[i] && in.bytes != 0;
    if (in.by_address || in.bytes == 0) {
      in.given = tensor;
      continue;
    }
    // An expanded tensor is its span. One with wide gaps is copied by elements.
    const bool expanded = std::any_of(in.strides.begin(), in.strides.end(), [](int64_t s) { return s == 0; });
    in.as_bytes = expanded || in.bytes <= 2 * static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
    if (like != nullptr && like->inputs_.size() == inputs.size()) {
      const Input& other = like->inputs_[i];
      if (other.memory.defined() && other.same_layout(tensor)) in.memory = other.memory;
    }
    if (!in.memory.defined()) {
      const auto elements = static_cast<int64_t>(in.bytes / tensor.itemsize());
      const at::Tensor flat = at::empty({elements}, tensor.options());
      in.memory = tensor_over(flat.storage(), tensor.dtype(), in.sizes, in.strides, 0);
    }
  }
}

// Replays read the copied inputs, perhaps on another stream than the one that memory belongs to.
CapturedCall::~CapturedCall() { memory_->graph.drop_commands(); }

void CapturedCall::begin() { memory_->graph.capture_begin(); }

at::Tensor CapturedCall::input(size_t i) const { return inputs_[i].is_tensor ? inputs_[i].captured() : at::Tensor(); }

void CapturedCall::abandon() {
  try {
    memory_->graph.reset();
  } catch (...) {  // what stopped the capture is reported, not this
  }
  for (Input& in : inputs_) in.given.reset();
}

void CapturedCall::end(const std::vector<std::optional<at::Tensor>>& outputs) {
  memory_->graph.capture_end();
  std::vector<c10::Storage>& kept = memory_->outputs;
  for (const auto& tensor : outputs) {
    Output& out = outputs_.emplace_back();
    if (!tensor.has_value() || !tensor->defined()) continue;
    const bool host_scalar = tensor->is_cpu() && tensor->dim() == 0;
    TORCH_CHECK(host_scalar || (tensor->is_privateuseone() && tensor->get_device() == device_ &&
                                tensor->layout() == at::kStrided && !tensor->is_conj() && !tensor->is_neg()),
                "an output is on ", tensor->device(), ", or has a layout that cannot be handed out again");
    out.sizes = tensor->sizes().vec();
    out.strides = tensor->strides().vec();
    out.dtype = tensor->dtype();
    out.offset = tensor->storage_offset();
    const c10::Storage& storage = tensor->storage();
    const auto same = [&](const Input& in) {
      return in.is_tensor && in.captured().unsafeGetTensorImpl()->unsafe_storage().is_alias_of(storage);
    };
    const auto input = std::find_if(inputs_.begin(), inputs_.end(), same);
    if (input != inputs_.end()) {
      const at::Tensor& alias = input->captured();
      out.kind = Output::Kind::input;
      out.index = static_cast<size_t>(input - inputs_.begin());
      out.whole = alias.is_same(*tensor);
      out.offset -= alias.storage_offset();
    } else if (host_scalar) {
      has_host_output_ = true;
      out.kind = Output::Kind::other;
      out.other = *tensor;
    } else if (storage.nbytes() == 0 || is_of_pool(storage.data_ptr(), memory_->graph.pool())) {
      out.kind = Output::Kind::pool;
      const auto found =
          std::find_if(kept.begin(), kept.end(), [&](const c10::Storage& s) { return s.is_alias_of(storage); });
      out.index = static_cast<size_t>(found - kept.begin());
      if (found == kept.end()) kept.push_back(storage);
    } else {
      out.kind = Output::Kind::other;
      out.other = *tensor;
    }
  }
  for (Input& in : inputs_) in.given.reset();
}

CapturedCall::Fit CapturedCall::fits(const CallInputs& inputs) const {
  if (inputs.size() != inputs_.size()) return Fit::none;
  Fit fit = Fit::whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs_[i];
    const at::Tensor* tensor = inputs[i].tensor;
    if ((tensor != nullptr) != in.is_tensor || inputs[i].on_host != in.on_host) return Fit::none;
    if (tensor == nullptr) {
      if (inputs[i].number != in.number) return Fit::none;
      continue;
    }
    if (!in.same_layout(*tensor)) return Fit::none;
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
int64_t CapturedCall::outputs_alive() const { return memory_->alive.load(std::memory_order_acquire); }
size_t CapturedCall::commands() const { return memory_->graph.commands(); }
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
  const c10::Device device(c10::DeviceType::PrivateUse1, device_);
  std::vector<c10::Storage> storages;
  storages.reserve(memory_->outputs.size());
  for (const c10::Storage& captured : memory_->outputs) {
    const size_t bytes = captured.nbytes();
    if (bytes == 0) {
      storages.push_back(storage_of(c10::DataPtr(nullptr, device), 0));
    } else if (copies_ || bytes <= kSmallBytes) {
      c10::DataPtr fresh = device_allocator()->allocate(bytes);
      stream.copy(reinterpret_cast<uint64_t>(fresh.get()), reinterpret_cast<uint64_t>(captured.data()), bytes);
      storages.push_back(storage_of(std::move(fresh), bytes));
    } else {
      memory_->alive.fetch_add(1, std::memory_order_relaxed);
      auto* context = c10::intrusive_ptr<CallMemory>(memory_).release();
      storages.push_back(storage_of({captured.mutable_data(), context, &release_output, device}, bytes));
    }
  }
  return storages;
}

std::vector<at::Tensor> CapturedCall::replay(const CallInputs& inputs) {
  auto& stream = current_stream(device_);
  order_after_other_streams(stream);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& in = inputs_[i];
    if (!in.memory.defined()) continue;
    const at::Tensor& from = *inputs[i].tensor;
    if (in.as_bytes) {
      stream.copy(reinterpret_cast<uint64_t>(in.memory.mutable_data_ptr()),
                  reinterpret_cast<uint64_t>(from.const_data_ptr()), in.bytes);
    } else {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      in.memory.copy_(from);
    }
  }
  memory_->graph.replay();
  const std::vector<c10::Storage> storages = hand_out(stream);
  std::vector<at::Tensor> outputs(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& out = outputs_[i];
    switch (out.kind) {
      case Output::Kind::none: break;
      case Output::Kind::other: outputs[i] = out.other; break;
      case Output::Kind::pool:
        outputs[i] = tensor_over(storages[out.index], out.dtype, out.sizes, out.strides, out.offset);
        break;
      case Output::Kind::input: {
        const at::Tensor& alias = *inputs[out.index].tensor;
        outputs[i] = out.whole ? alias
                               : tensor_over(alias.storage(), out.dtype, out.sizes, out.strides,
                                             alias.storage_offset() + out.offset);
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
