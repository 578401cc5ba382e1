#include "aten/register.h"
#include "ops/quantize/fake_quantize.h"

namespace aule {
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
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
}  // namespace aule
