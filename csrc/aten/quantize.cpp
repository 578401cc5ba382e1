#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "aten/register.h"
#include "ops/quantize/fake_quantize.h"
#include "ops/quantized/packed_mm.h"
#include "ops/quantized/quantized.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("_convert_weight_to_int4pack", ops::convert_weight_to_int4pack));
  m.impl(ROW("_weight_int8pack_mm", ops::weight_int8pack_mm));
  m.impl(ROW("_weight_int4pack_mm", ops::weight_int4pack_mm_tiles));
  m.impl(ROW("_weight_int4pack_mm_with_scales_and_zeros", ops::weight_int4pack_mm));
  m.impl(ROW("fake_quantize_per_tensor_affine_cachemask", ops::fake_quantize_per_tensor));
  m.impl(ROW("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", ops::fake_quantize_per_tensor_qparams));
  m.impl(ROW("fake_quantize_per_channel_affine_cachemask", ops::fake_quantize_per_channel));
  m.impl(ROW("_fused_moving_avg_obs_fq_helper", ops::fused_moving_avg_obs_fq_helper));
  m.impl(ROW("_fake_quantize_learnable_per_tensor_affine", ops::fake_quantize_learnable_per_tensor));
  m.impl(ROW("_fake_quantize_learnable_per_tensor_affine_backward", ops::fake_quantize_learnable_per_tensor_backward));
  m.impl(ROW("_fake_quantize_learnable_per_channel_affine", ops::fake_quantize_learnable_per_channel));
  m.impl(
      ROW("_fake_quantize_learnable_per_channel_affine_backward", ops::fake_quantize_learnable_per_channel_backward));
}

TORCH_LIBRARY_FRAGMENT(aule, m) {
  m.def(
      "quantized_dequantize(Tensor weight, str format, int k, ScalarType dtype, Tensor[] scales, int[] group) -> "
      "Tensor");
  m.def(
      "quantized_rows(Tensor weight, Tensor indices, str format, int k, ScalarType dtype, Tensor[] scales, int[] "
      "group) "
      "-> Tensor");
  m.def(
      "quantized_linear(Tensor x, Tensor weight, str format, Tensor? bias, Tensor[] scales, int[] group) -> "
      "Tensor");
  m.def(
      "quantized_norm_linear_act(Tensor x, Tensor weight, str format, Tensor? bias, Tensor[] scales, int[] group, "
      "Tensor? norm=None, float eps=0, str activation='none', Tensor? residual=None) -> Tensor");
  m.def("quantized_matmul(Tensor x, Tensor weight, str format, int k, Tensor[] scales, int[] group) -> Tensor");
  m.def(
      "quantized_linear_by_expert(Tensor x, Tensor weight, Tensor ids, str format, Tensor[] scales, int[] group) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(aule, PrivateUse1, m) {
  m.impl("quantized_dequantize", GUARDED(ops::quantized_dequantize));
  m.impl("quantized_rows", GUARDED(ops::quantized_rows));
  m.impl("quantized_linear", GUARDED(ops::quantized_linear));
  m.impl("quantized_norm_linear_act", GUARDED(ops::quantized_norm_linear_act));
  m.impl("quantized_matmul", GUARDED(ops::quantized_matmul));
  m.impl("quantized_linear_by_expert", GUARDED(ops::quantized_linear_by_expert));
}
TORCH_LIBRARY_IMPL(aule, Autograd, m) {  // inference only
  m.impl("quantized_norm_linear_act", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace
}  // namespace aule::aten
