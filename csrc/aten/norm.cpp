#include "ops/norm.h"

#include "aten/register.h"
#include "ops/norm_batch.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_layer_norm", GUARDED(ops::native_layer_norm));
  m.impl("native_layer_norm_backward", GUARDED(ops::native_layer_norm_backward));
  m.impl("_fused_rms_norm", GUARDED(ops::fused_rms_norm));
  m.impl("_fused_rms_norm_backward", GUARDED(ops::fused_rms_norm_backward));
  m.impl("native_group_norm", GUARDED(ops::native_group_norm));
  m.impl("native_group_norm_backward", GUARDED(ops::native_group_norm_backward));
  m.impl("native_batch_norm", GUARDED(ops::native_batch_norm));
  m.impl("native_batch_norm.out", GUARDED(ops::native_batch_norm_out));
  m.impl("_native_batch_norm_legit", GUARDED(ops::native_batch_norm_legit));
  m.impl("_native_batch_norm_legit.no_stats", GUARDED(ops::native_batch_norm_no_stats));
  m.impl("_batch_norm_with_update", GUARDED(ops::batch_norm_with_update));
  m.impl("native_batch_norm_backward", GUARDED(ops::native_batch_norm_backward));
  m.impl("batch_norm_backward", GUARDED(ops::batch_norm_backward));
}

}  // namespace
}  // namespace aule::aten
