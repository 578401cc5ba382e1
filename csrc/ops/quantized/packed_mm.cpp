#include "ops/quantized/packed_mm.h"

#include <array>

#include "ops/quantized/quantized.h"

namespace aule::ops {

at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  constexpr const char* kOp = "_weight_int8pack_mm";
  TORCH_CHECK(self.dim() == 2, kOp, ": expected self to be 2-D, but got ", self.dim(), "-D");
  TORCH_CHECK(mat2.scalar_type() == at::kChar && mat2.dim() == 2 && mat2.size(1) == self.size(1), kOp,
              ": expected mat2 to be [n, ", self.size(1), "] of Char, but got ", mat2.sizes(), " of ",
              mat2.scalar_type());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), kOp, ": expected scales to have sizes [",
              mat2.size(0), "], but got ", scales.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(self.size(1) % 8 == 0, kOp, ": expected a multiple of 8 columns, but got ", self.size(1));
  const std::array<at::Tensor, 1> of_rows{scales};
  return quantized_linear(self, mat2.view(at::kByte), "int8", {}, of_rows, mat2.size(1));
}

at::Tensor weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t group, const at::Tensor& scales,
                              const at::Tensor& zeros) {
  constexpr const char* kOp = "_weight_int4pack_mm_with_scales_and_zeros";
  TORCH_CHECK(self.dim() == 2, kOp, ": expected self to be 2-D, but got ", self.dim(), "-D");
  const int64_t k = self.size(1);
  TORCH_CHECK(mat2.scalar_type() == at::kInt && mat2.dim() == 2 && mat2.size(1) * 8 == k, kOp,
              ": expected mat2 to be [n, ", k, " / 8] of Int, but got ", mat2.sizes(), " of ", mat2.scalar_type());
  TORCH_CHECK(group > 0 && k % group == 0, kOp, ": expected groups that divide ", k, ", but got ", group);
  for (const at::Tensor* t : {&scales, &zeros})
    TORCH_CHECK(t->dim() == 2 && t->size(0) == k / group && t->size(1) == mat2.size(0), kOp,
                ": expected scales and zeros to be [", k / group, ", ", mat2.size(0), "], but got ", t->sizes());
  const std::array<at::Tensor, 2> of_groups{scales.t(), zeros.t()};
  return quantized_linear(self, mat2.view(at::kByte), "int4", {}, of_groups, group);
}

}  // namespace aule::ops
