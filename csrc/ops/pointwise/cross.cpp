// Made of rolls and products: every dtype that these have.
#include "ops/pointwise/cross.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

namespace aule::ops {

at::Tensor& linalg_cross_out(const at::Tensor& self, const at::Tensor& other, int64_t dim, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, "\"cross\" not implemented for 'Bool'");
  TORCH_CHECK(self.dim() == other.dim(), "linalg.cross: inputs must have the same number of dimensions.");
  TORCH_CHECK(self.size(dim) == 3 && other.size(dim) == 3, "linalg.cross: inputs dimension ", dim,
              " must have length 3. Got ", self.size(dim), " and ", other.size(dim));
  at::native::resize_output(out, at::infer_size(self.sizes(), other.sizes()));
  if (out.numel() == 0) return out;
  // Component i has self[i + 1] other[i + 2] - self[i + 2] other[i + 1], counted modulo 3.
  const at::Tensor a = self.expand(out.sizes()), b = other.expand(out.sizes());
  const auto ahead = [dim](const at::Tensor& t, int64_t by) { return t.roll({-by}, {dim}); };
  return at::sub_out(out, at::mul(ahead(a, 1), ahead(b, 2)), at::mul(ahead(a, 2), ahead(b, 1)));
}

}  // namespace aule::ops
