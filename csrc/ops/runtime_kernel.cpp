#include "ops/runtime_kernel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/MemoryOverlap.h>

#include <cstring>

#include "kernels/registry.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

RuntimeKernel::RuntimeKernel(std::string name, std::vector<uint32_t> spirv, const std::vector<std::string>& features,
                             uint32_t params_bytes, bool params_ring, std::vector<Tensor> tensors)
    : name_(std::move(name)), tensors_(std::move(tensors)) {
  const uint32_t bits = kernels::feature_bits_named(features);
  held_ = std::make_unique<const kernels::HeldKernel>(
      kernels::NewKernel{name_, std::move(spirv), bits, static_cast<uint16_t>(params_bytes), params_ring});
}

RuntimeKernel::~RuntimeKernel() = default;

KernelId RuntimeKernel::id() const { return held_->id(); }

uint64_t RuntimeKernel::shared_bytes(const std::vector<uint32_t>& constants) const {
  return aule::shared_bytes(id(), constants);
}

void RuntimeKernel::check(const Tensor& wanted, const at::Tensor& t, const at::Tensor& first) const {
  TORCH_CHECK_TYPE(t.defined() && t.device().is_privateuseone(), name_, ": ", wanted.name,
                   " must be a tensor on device aule, but got ", t.defined() ? t.device().str() : "none");
  TORCH_CHECK_VALUE(t.device() == first.device(), name_, ": ", wanted.name, " is on ", t.device(), ", but ",
                    tensors_.front().name, " is on ", first.device());
  TORCH_CHECK_TYPE(t.layout() == at::kStrided && !t.is_quantized(), name_, ": ", wanted.name,
                   " must be a strided tensor, but its layout is ", t.layout());
  TORCH_CHECK_TYPE(!wanted.dtype || t.scalar_type() == *wanted.dtype, name_, ": ", wanted.name, " must be of dtype ",
                   wanted.dtype.value_or(at::kFloat), ", but is ", t.scalar_type());
  TORCH_CHECK_VALUE(!t.is_conj() && !t.is_neg(), name_, ": ", wanted.name,
                    " is a lazy conjugate or negative view: resolve it first");
  TORCH_CHECK_VALUE(wanted.strided || t.is_contiguous(), name_, ": ", wanted.name,
                    " must be contiguous, but has sizes ", t.sizes(), " and strides ", t.strides(),
                    " (the kernel does not declare it `strided`)");
  if (!wanted.writes) return;
  at::assert_no_internal_overlap(t);
  TORCH_CHECK_VALUE(!t.requires_grad() || !at::GradMode::is_enabled(), name_, ": ", wanted.name,
                    " is written and requires grad: launch in torch.no_grad() or an autograd.Function");
}

void RuntimeKernel::launch(const std::vector<at::Tensor>& tensors, std::vector<uint32_t> constants,
                           std::vector<unsigned char> params, Grid grid) const {
  TORCH_CHECK_TYPE(tensors.size() == tensors_.size(), name_, ": takes ", tensors_.size(), " tensors, but got ",
                   tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) check(tensors_[i], tensors[i], tensors.front());
  TensorArgs args;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& wanted = tensors_[i];
    const at::Tensor& t = tensors[i];
    if (wanted.dtype_constant >= 0)
      constants.at(static_cast<size_t>(wanted.dtype_constant)) = static_cast<uint32_t>(dtype_of(t, name_.c_str()));
    const uint64_t address = wanted.writes ? args.read_write(t) : args.read(t);
    std::memcpy(params.data() + wanted.offset, &address, sizeof address);
  }
  launch_kernel(current(tensors.front()), id(), constants, params.data(), params.size(), args, grid);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors_[i].writes && !tensors[i].is_inference()) tensors[i].unsafeGetTensorImpl()->bump_version();
}

}  // namespace aule::ops
