#include "ops/copy/copy.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <sstream>

#include "ops/copy/host.h"
#include "ops/copy/kernels.h"
#include "ops/copy/storage_types.h"
#include "ops/tensor/fallback_report.h"
#include "ops/tensor/overlap.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

bool on_aule(const at::Tensor& t) { return t.device().type() == c10::DeviceType::PrivateUse1; }

// Same sizes, same strides and no gaps, so the tensor is the bytes from element 0 on.
bool same_dense_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         ((a.is_contiguous() && b.is_contiguous()) || (a.strides() == b.strides() && a.is_non_overlapping_and_dense()));
}

bool has_bits(const at::Tensor& t) { return t.is_conj() || t.is_neg(); }

void host_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const c10::OptionalDeviceGuard guard(dst.device());
  // The device converts, except dtypes without arithmetic there. Those are converted on the host, where the data is.
  const bool convert_here =
      src.dtype() != dst.dtype() && (!has_dtype(src.scalar_type()) || !has_dtype(dst.scalar_type()) ||
                                     src.scalar_type() == at::kDouble || dst.scalar_type() == at::kDouble);
  at::Tensor host = convert_here ? src.to(dst.scalar_type()) : src;
  if (host.sizes() == dst.sizes() && host.dtype() == dst.dtype() && same_dense_layout(host, dst) && !has_bits(dst)) {
    upload(dst, host, non_blocking);
    return;
  }
  // Only the source's own elements are uploaded. The device broadcasts them.
  host = host.contiguous();
  at::Tensor staged = at::empty(host.sizes(), dst.options().dtype(host.scalar_type()));
  upload(staged, host, non_blocking);
  copy_strided(dst, staged.expand(dst.sizes()));
}

void device_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  const c10::OptionalDeviceGuard guard(src.device());
  if (src.dtype() == dst.dtype() && same_dense_layout(src, dst) && !has_bits(src)) {
    download(dst, src, non_blocking);
    return;
  }
  at::Tensor dense = src;
  if (!src.is_non_overlapping_and_dense() || has_bits(src)) {
    dense = at::empty(src.sizes(), src.options());
    copy_strided(dense, src);
  }
  at::Tensor host = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(at::kCPU));
  download(host, dense, /*non_blocking=*/false);
  const_cast<at::Tensor&>(dst).copy_(host);
}

// Both of equal sizes, on one device. Dtypes that the device does not know at all convert on the host.
void on_device(const at::Tensor& src, const at::Tensor& dst) {
  if (C10_LIKELY(converts_on_device(dst.scalar_type(), src.scalar_type()))) {
    copy_strided(dst, src);
    return;
  }
  const auto converts = [](const at::Tensor& t) {
    return has_dtype(t.scalar_type()) || t.is_complex() || is_storage_only(t.scalar_type());
  };
  if (converts(dst) && converts(src)) {
    convert_storage(dst, src.resolve_conj().resolve_neg());
    return;
  }
  allow_host("aten::_copy_from", [&] {
    std::ostringstream text;
    text << src.scalar_type() << src.sizes() << " to " << dst.scalar_type();
    return text.str();
  });
  at::Tensor host = at::empty(src.sizes(), src.options().device(at::kCPU));
  device_to_host(src, host, /*non_blocking=*/false);
  host_to_device(host.to(dst.scalar_type()), dst, /*non_blocking=*/false);
}

// Checks that TensorIterator makes where PyTorch copies; PyTorch asks other devices before it makes one.
void check_copy(const at::Tensor& src, const at::Tensor& dst) {
  if (C10_UNLIKELY(dst.sizes() != src.sizes())) {
    const at::DimVector shape = at::infer_size_dimvector(dst.sizes(), src.sizes());
    TORCH_CHECK(dst.sizes() == shape, "output with shape ", dst.sizes(), " doesn't match the broadcast shape ",
                at::IntArrayRef(shape));
  }
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
}

// On one device. What check_copy() lets pass may still share memory: tensors with gaps, and those that repeat elements.
// Invocations come in no order, so such a source is copied first.
void within_device(const at::Tensor& src, const at::Tensor& dst) {
  const at::Tensor broadcast = src.expand(dst.sizes());
  if (C10_LIKELY(!may_meet(dst, src))) return on_device(broadcast, dst);
  if (same_places(broadcast, dst)) {
    if (src.dtype() == dst.dtype() && src.is_conj() == dst.is_conj() && src.is_neg() == dst.is_neg()) return;
    return on_device(broadcast, dst);
  }
  const at::Tensor apart = at::empty(src.sizes(), src.options());
  copy_strided(apart, src);
  on_device(apart.expand(dst.sizes()), dst);
}

// Only the source's own elements are sent. Their device makes them dense; the target converts and broadcasts them.
void between_devices(const at::Tensor& src, const at::Tensor& dst) {
  at::Tensor dense = src;
  if (!src.is_non_overlapping_and_dense() || has_bits(src)) {
    const c10::OptionalDeviceGuard guard(src.device());
    dense = at::empty_like(src);
    copy_strided(dense, src);
  }
  if (dense.dtype() == dst.dtype() && same_dense_layout(dense, dst) && !has_bits(dst)) {
    send_bytes(dst, dense);
    return;
  }
  const c10::OptionalDeviceGuard guard(dst.device());
  const at::Tensor sent = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(dst.device()));
  send_bytes(sent, dense);
  on_device(sent.expand(dst.sizes()), dst);
}

}  // namespace

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(self.defined() && dst.defined(), "copy_: expected defined tensors");
  check_copy(self, dst);
  if (dst.numel() == 0) return dst;
  // The host resolves conjugate and negative bits of its tensors. Those of device tensors are resolved by copy kernels.
  if (self.is_cpu() && has_bits(self)) return copy_from(self.resolve_conj().resolve_neg(), dst, non_blocking);
  if (dst.is_cpu() && has_bits(dst)) {
    at::Tensor plain = at::empty(dst.sizes(), dst.options());
    copy_from(self, plain, /*non_blocking=*/false);
    return const_cast<at::Tensor&>(dst).copy_(plain);
  }
  if (on_aule(self) && on_aule(dst)) {
    if (self.device() == dst.device()) {
      within_device(self, dst);
    } else {
      between_devices(self, dst);
    }
  } else if (on_aule(dst)) {
    // Memory of another kind of device (CUDA, say) is not addressable here, so the bytes go through the host.
    host_to_device(self.is_cpu() ? self : self.to(at::kCPU), dst, non_blocking && self.is_cpu());
  } else if (dst.is_cpu()) {
    device_to_host(self.expand(dst.sizes()), dst, non_blocking);
  } else {
    const_cast<at::Tensor&>(dst).copy_(self.to(at::kCPU), /*non_blocking=*/false);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense", AT_WRAP([&] {
                   scalar_t read;
                   download_bytes(current(self), &read, address_of(self), sizeof read);
                   value = read;
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
  if (C10_UNLIKELY(self.is_neg() || self.is_conj())) {
    at::Tensor bits = at::empty({}, self.options().device(at::kCPU)).fill_(value);
    if (self.is_conj()) bits = bits.conj().resolve_conj();
    if (self.is_neg()) bits = bits.neg();
    value = bits.item();
  }
  return value;
}

}  // namespace aule::ops
