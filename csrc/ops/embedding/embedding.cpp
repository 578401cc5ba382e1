#include "ops/embedding/embedding.h"

#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "ops/indexing/common.h"
#include "ops/indexing/indexing.h"

namespace aule::ops {

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t /*padding_idx*/,
                     bool /*scale_grad_by_freq*/, bool /*sparse*/) {
  const char* op = "embedding";
  TORCH_CHECK(weight.dim() == 2, op, ": 'weight' must be 2-D");
  check_same_device(op, {&weight, &indices});
  check_index_dtype(op, indices);
  at::DimVector shape(indices.sizes());
  shape.push_back(weight.size(1));
  at::Tensor out = at::empty(shape, weight.options());
  IndexCall call{op, out, weight, {indices}, {{weight.size(0)}, {weight.stride(0)}, {}}, false};
  for (int64_t d = 0; d < out.dim(); ++d) {
    IndexSpace::Dim dim;
    dim.size = out.size(d);
    dim.plain_stride = out.stride(d);
    if (d < indices.dim())
      dim.index_stride[0] = indices.stride(d);
    else
      dim.indexed_stride = weight.stride(1);
    call.space.dims.push_back(dim);
  }
  check_bound(op, call);
  run_get(std::move(call));
  return out;
}

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  const char* op = "embedding_dense_backward";
  check_same_device(op, {&grad_output, &indices});
  check_index_dtype(op, indices);
  const int64_t width = grad_output.size(-1);
  const at::Tensor line = indices.reshape({-1});
  at::Tensor source = grad_output.reshape({line.numel(), width});
  // 16-bit gradients are added in float32: in 16 bits the sum of a frequent row would stop growing.
  const bool narrow = source.scalar_type() == at::kHalf || source.scalar_type() == at::kBFloat16;
  at::Tensor out = at::zeros({num_weights, width}, narrow ? source.options().dtype(at::kFloat) : source.options());
  if (source.numel() == 0) return out.to(grad_output.scalar_type());
  if (scale_grad_by_freq) {
    at::Tensor count = at::zeros({num_weights}, out.options());
    run_combine(call_along_dim(op, at::full({}, 1, out.options()).expand({line.numel()}), count, 0, line, /*line=*/true,
                               /*wrap=*/false),
                Combine::add);
    // An index out of range was reported above and reads a count of 0 here.
    source = source.to(out.scalar_type()).div(at::clamp_min(at::index_select(count, 0, line), 1).unsqueeze(1));
  }
  IndexCall call = call_along_dim(op, source, out, 0, line, /*line=*/true, /*wrap=*/false);
  check_bound(op, call);
  run_combine(std::move(call), Combine::add);
  if (padding_idx >= 0 && padding_idx < num_weights) out.select(0, padding_idx).zero_();
  return narrow ? out.to(grad_output.scalar_type()) : out;
}

// Computes the norm of every row, and scales rows that are looked up and too long. The host need not know which.
at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  const char* op = "embedding_renorm_";
  TORCH_CHECK(self.dim() == 2, op, ": 'self' must be 2-D");
  check_same_device(op, {&self, &indices});
  check_index_dtype(op, indices);
  if (indices.numel() == 0 || self.numel() == 0) return self;
  at::Tensor used = at::zeros({self.size(0)}, self.options().dtype(at::kBool));
  const at::Tensor line = indices.reshape({-1});
  IndexCall call = call_along_dim(op, at::full({}, true, used.options()).expand({line.numel()}), used, 0, line,
                                  /*line=*/true, /*wrap=*/false);
  for (auto& d : call.space.dims) d.meets = false;  // all writers of an element write the same value
  run_put(std::move(call));
  const bool half = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const at::Tensor norms = at::norm(self, norm_type, 1, /*keepdim=*/false, half ? at::kFloat : self.scalar_type());
  const at::Tensor scale = at::full({}, max_norm, norms.options()).div(norms.add(1e-7));
  const at::Tensor kept = at::where(used.logical_and(norms.gt(max_norm)), scale, at::ones_like(scale));
  return self.mul_(kept.unsqueeze(1));
}

}  // namespace aule::ops
