#include "ops/norm/norm.h"
#include "aten/register.h"
#include "ops/norm/batch.h"
#include "ops/norm/row_products.h"
#include "ops/norm/softmax.h"
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

  m.impl(ROW("_softmax.out", ops::softmax_out));
  m.impl(ROW("_log_softmax.out", ops::log_softmax_out));
  m.impl(ROW("_softmax_backward_data.out", ops::softmax_backward_data_out));
  m.impl(ROW("_log_softmax_backward_data.out", ops::log_softmax_backward_data_out));
  m.impl(ROW("_safe_softmax", ops::safe_softmax));
  m.impl(ROW("_masked_softmax", ops::masked_softmax));
  m.impl(ROW("_masked_softmax_backward", ops::masked_softmax_backward));
}

}  // namespace

// aule::diagonal_matmul and aule::fused_linear_rowsum. Their gradients are registered in torch_aule/ops/reference.py.
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
