#include "ops/reduce/reduce.h"
#include "aten/register.h"
#include "ops/reduce/hash.h"
#include "ops/reduce/scan.h"
#include "ops/reduce/segment.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("sum.IntList_out", ops::sum_out));
  m.impl(ROW("mean.out", ops::mean_out));
  m.impl(ROW("nansum", ops::nansum));
  m.impl(ROW("nansum.out", ops::nansum_out));
  m.impl(ROW("prod", ops::prod));
  m.impl(ROW("prod.int_out", ops::prod_out));
  m.impl(ROW("amax.out", ops::amax_out));
  m.impl(ROW("amin.out", ops::amin_out));
  m.impl(ROW("max", ops::max));
  m.impl(ROW("min", ops::min));
  m.impl(ROW("max.unary_out", ops::max_unary_out));
  m.impl(ROW("min.unary_out", ops::min_unary_out));
  m.impl(ROW("max.dim_max", ops::max_dim_out));
  m.impl(ROW("min.dim_min", ops::min_dim_out));
  m.impl(ROW("aminmax.out", ops::aminmax_out));
  m.impl(ROW("_aminmax", ops::aminmax_all));
  m.impl(ROW("_aminmax.dim", ops::aminmax_dim));
  m.impl(ROW("argmax.out", ops::argmax_out));
  m.impl(ROW("argmin.out", ops::argmin_out));
  m.impl(ROW("any.out", ops::any_out));
  m.impl(ROW("all.out", ops::all_out));
  m.impl(ROW("any.all_out", ops::any_all_out));
  m.impl(ROW("all.all_out", ops::all_all_out));
  m.impl(ROW("count_nonzero.dim_IntList", ops::count_nonzero));
  m.impl(ROW("var.correction", ops::var));
  m.impl(ROW("var.correction_out", ops::var_out));
  m.impl(ROW("std.correction", ops::std));
  m.impl(ROW("std.correction_out", ops::std_out));
  m.impl(ROW("var_mean.correction", ops::var_mean));
  m.impl(ROW("std_mean.correction", ops::std_mean));
  m.impl(ROW("linalg_vector_norm.out", ops::linalg_vector_norm_out));
  m.impl(ROW("norm.out", ops::norm_out));
  m.impl(ROW("norm.dtype_out", ops::norm_dtype_out));
  m.impl(ROW("renorm.out", ops::renorm_out));
  m.impl(ROW("logsumexp", ops::logsumexp));
  m.impl(ROW("logsumexp.out", ops::logsumexp_out));
  m.impl(ROW("trace", ops::trace));
  m.impl(ROW("equal", ops::equal));
  m.impl(ROW("hash_tensor.out", ops::hash_tensor_out));
  m.impl(ROW("segment_reduce", ops::segment_reduce));
  m.impl(ROW("_segment_reduce_backward", ops::segment_reduce_backward));

  m.impl(ROW("cumsum.out", ops::cumsum_out));
  m.impl(ROW("cumprod.out", ops::cumprod_out));
  m.impl(ROW("_cummax_helper", ops::cummax_helper));
  m.impl(ROW("_cummin_helper", ops::cummin_helper));
  m.impl(ROW("_logcumsumexp", ops::logcumsumexp));
  m.impl(ROW("_logcumsumexp.out", ops::logcumsumexp_out));
}

}  // namespace
}  // namespace aule::aten
