// w = g v / |v| over all dimensions but the first or the last: made of reductions and pointwise operators.
#include "ops/norm/weight_norm.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>

#include <vector>

#include "ops/tensor/floating.h"

namespace aule::ops {
namespace {

// Dimensions that a norm is taken over.
std::vector<int64_t> others(const at::Tensor& v, int64_t dim, const char* op) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, op, ": expected dim to be the first or the last of ", v.dim(),
              " dimensions, got ", dim);
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < v.dim(); ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}
// Norms of 16-bit weights are float32, as on the CPU for bfloat16.
at::ScalarType norm_type(const at::Tensor& v) { return v.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace

std::tuple<at::Tensor, at::Tensor> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const char* op = "_weight_norm_interface";
  check_floating(op, v);
  const auto dims = others(v, dim, op);
  const at::Tensor norms = at::linalg_vector_norm(v, 2, dims, /*keepdim=*/true, norm_type(v));
  at::Tensor w = at::empty_like(v, at::MemoryFormat::Contiguous);
  at::mul_out(w, v, g.to(norms.scalar_type()).div(norms));
  return {w, norms};
}

// grad_g = sum(grad_w v) / |v|,  grad_v = g / |v| (grad_w - v grad_g / |v|)
std::tuple<at::Tensor, at::Tensor> weight_norm_backward(const at::Tensor& grad_w, const at::Tensor& saved_v,
                                                        const at::Tensor& saved_g, const at::Tensor& saved_norms,
                                                        int64_t dim) {
  const char* op = "_weight_norm_interface_backward";
  check_floating(op, saved_v);
  const auto dims = others(saved_v, dim, op);
  const at::ScalarType type = saved_norms.scalar_type();
  const at::Tensor grad = grad_w.to(type), v = saved_v.to(type), g = saved_g.to(type);
  const at::Tensor product = at::mul(grad, v);
  const at::Tensor grad_g = (dims.empty() ? product : product.sum(dims, /*keepdim=*/true)).div(saved_norms);
  const at::Tensor scale = g.div(saved_norms);
  const at::Tensor grad_v =
      at::addcmul(grad.mul(scale), v, scale.mul(grad_g).div(saved_norms), /*value=*/-1).to(saved_v.scalar_type());
  return {grad_v, grad_g.to(saved_g.scalar_type())};
}

}  // namespace aule::ops
