#include "ops/norm/norm.h"

#include "aten/register.h"
#include "ops/norm/batch.h"
#include "ops/norm/sync_batch.h"
#include "ops/norm/weight_norm.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("native_layer_norm", ops::native_layer_norm));
  m.impl(ROW("native_layer_norm_backward", ops::native_layer_norm_backward));
  m.impl(ROW("_fused_rms_norm", ops::fused_rms_norm));
  m.impl(ROW("_fused_rms_norm_backward", ops::fused_rms_norm_backward));
  m.impl(ROW("native_group_norm", ops::native_group_norm));
  m.impl(ROW("native_group_norm_backward", ops::native_group_norm_backward));
  m.impl(ROW("native_batch_norm", ops::native_batch_norm));
  m.impl(ROW("native_batch_norm.out", ops::native_batch_norm_out));
  m.impl(ROW("_native_batch_norm_legit", ops::native_batch_norm_legit));
  m.impl(ROW("_native_batch_norm_legit.out", ops::native_batch_norm_legit_out));
  m.impl(ROW("_native_batch_norm_legit.no_stats_out", ops::native_batch_norm_no_stats_out));
  m.impl(ROW("_native_batch_norm_legit.no_stats", ops::native_batch_norm_no_stats));
  m.impl(ROW("_batch_norm_with_update", ops::batch_norm_with_update));
  m.impl(ROW("native_batch_norm_backward", ops::native_batch_norm_backward));
  m.impl(ROW("batch_norm_backward", ops::batch_norm_backward));
  m.impl(ROW("batch_norm_stats", ops::batch_norm_stats));
  m.impl(ROW("batch_norm_update_stats", ops::batch_norm_update_stats));
  m.impl(ROW("batch_norm_gather_stats", ops::batch_norm_gather_stats));
  m.impl(ROW("batch_norm_gather_stats_with_counts", ops::batch_norm_gather_stats_with_counts));
  m.impl(ROW("batch_norm_elemt", ops::batch_norm_elemt));
  m.impl(ROW("batch_norm_elemt.out", ops::batch_norm_elemt_out));
  m.impl(ROW("batch_norm_backward_reduce", ops::batch_norm_backward_reduce));
  m.impl(ROW("batch_norm_backward_elemt", ops::batch_norm_backward_elemt));
  m.impl(ROW("_weight_norm_interface", ops::weight_norm));
  m.impl(ROW("_weight_norm_interface_backward", ops::weight_norm_backward));
}

}  // namespace
}  // namespace aule::aten
