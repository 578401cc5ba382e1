// aule::diagonal_matmul and aule::fused_linear_rowsum. Their gradients are registered in torch_aule/ops/reference.py.
#include "aten/register.h"
#include "ops/norm/row_products.h"

namespace aule::aten {

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def("diagonal_matmul(Tensor a, Tensor b) -> Tensor");
  m.def("diagonal_matmul_backward(Tensor grad, Tensor a, Tensor b) -> (Tensor da, Tensor db)");
  m.def("fused_linear_rowsum(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor");
  m.def(
      "fused_linear_rowsum_backward(Tensor grad, Tensor x, Tensor weight, bool has_bias) -> (Tensor dx, Tensor "
      "dweight, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("diagonal_matmul", GUARDED(ops::diagonal_matmul));
  m.impl("diagonal_matmul_backward", GUARDED(ops::diagonal_matmul_backward));
  m.impl("fused_linear_rowsum", GUARDED(ops::fused_linear_rowsum));
  m.impl("fused_linear_rowsum_backward", GUARDED(ops::fused_linear_rowsum_backward));
}
TORCH_LIBRARY_IMPL(aule, CPU, m) {
  m.impl("diagonal_matmul", ops::diagonal_matmul_composed);
  m.impl("diagonal_matmul_backward", ops::diagonal_matmul_backward_composed);
  m.impl("fused_linear_rowsum", ops::fused_linear_rowsum_composed);
  m.impl("fused_linear_rowsum_backward", ops::fused_linear_rowsum_backward_composed);
}

}  // namespace aule::aten
