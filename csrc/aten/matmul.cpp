#include "ops/matmul/matmul.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/decoding/norm_linear.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/out_dtype.h"
#include "ops/matmul/scaled_mm.h"

namespace aule::aten {
namespace {

// The gradient and autocast of linear_bias_act: autograd/linear.cpp.
TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "linear_bias_act(Tensor x, Tensor weight, Tensor? bias=None, str activation='none', Tensor? residual=None) -> "
      "Tensor");
  m.def(
      "norm_linear_act(Tensor x, Tensor weight, Tensor? bias=None, Tensor? norm=None, float eps=0, str "
      "activation='none', Tensor? residual=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("linear_bias_act", GUARDED(ops::linear_bias_act));
  m.impl("norm_linear_act", GUARDED(ops::norm_linear_act));
}
TORCH_LIBRARY_IMPL(aule, CPU, m) { m.impl("linear_bias_act", ops::linear_bias_act_composed); }
TORCH_LIBRARY_IMPL(aule, Autograd, m) {
  m.impl("norm_linear_act", torch::autograd::autogradNotImplementedFallback());  // inference only
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("mm.out", ops::mm_out));
  m.impl(ROW("bmm.out", ops::bmm_out));
  m.impl(ROW("addmm.out", ops::addmm_out));
  m.impl(ROW("_addmm_activation.out", ops::addmm_activation_out));
  m.impl(ROW("baddbmm.out", ops::baddbmm_out));
  m.impl(ROW("mm.dtype", ops::mm_dtype));
  m.impl(ROW("mm.dtype_out", ops::mm_dtype_out));
  m.impl(ROW("bmm.dtype", ops::bmm_dtype));
  m.impl(ROW("bmm.dtype_out", ops::bmm_dtype_out));
  m.impl(ROW("addmm.dtype", ops::addmm_dtype));
  m.impl(ROW("addmm.dtype_out", ops::addmm_dtype_out));
  m.impl(ROW("baddbmm.dtype", ops::baddbmm_dtype));
  m.impl(ROW("baddbmm.dtype_out", ops::baddbmm_dtype_out));
  m.impl(ROW("addbmm", ops::addbmm));
  m.impl(ROW("addbmm_", ops::addbmm_));
  m.impl(ROW("addbmm.out", ops::addbmm_out));
  m.impl(ROW("addmv.out", ops::addmv_out));
  m.impl(ROW("dot", ops::dot));
  m.impl(ROW("vdot", ops::vdot));
  m.impl(ROW("_grouped_mm", ops::grouped_mm));
  m.impl(ROW("_scaled_mm", ops::scaled_mm));
  m.impl(ROW("_scaled_mm.out", ops::scaled_mm_out));
  m.impl(ROW("_scaled_mm_v2", ops::scaled_mm_v2));
  m.impl(ROW("_scaled_mm_v2.out", ops::scaled_mm_v2_out));
  m.impl(ROW("_int_mm", ops::int_mm));
  m.impl(ROW("_int_mm.out", ops::int_mm_out));
}

}  // namespace
}  // namespace aule::aten
