#include "ops/reduce.h"
#include "aten/register.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sum.IntList_out", GUARDED(ops::sum_out));
  m.impl("mean.out", GUARDED(ops::mean_out));
  m.impl("nansum", GUARDED(ops::nansum));
  m.impl("nansum.out", GUARDED(ops::nansum_out));
  m.impl("prod", GUARDED(ops::prod));
  m.impl("prod.int_out", GUARDED(ops::prod_out));
  m.impl("amax.out", GUARDED(ops::amax_out));
  m.impl("amin.out", GUARDED(ops::amin_out));
  m.impl("max", GUARDED(ops::max));
  m.impl("min", GUARDED(ops::min));
  m.impl("max.unary_out", GUARDED(ops::max_unary_out));
  m.impl("min.unary_out", GUARDED(ops::min_unary_out));
  m.impl("max.dim_max", GUARDED(ops::max_dim_out));
  m.impl("min.dim_min", GUARDED(ops::min_dim_out));
  m.impl("aminmax.out", GUARDED(ops::aminmax_out));
  m.impl("_aminmax", GUARDED(ops::aminmax_all));
  m.impl("_aminmax.dim", GUARDED(ops::aminmax_dim));
  m.impl("argmax.out", GUARDED(ops::argmax_out));
  m.impl("argmin.out", GUARDED(ops::argmin_out));
  m.impl("any.out", GUARDED(ops::any_out));
  m.impl("all.out", GUARDED(ops::all_out));
  m.impl("any.all_out", GUARDED(ops::any_all_out));
  m.impl("all.all_out", GUARDED(ops::all_all_out));
  m.impl("count_nonzero.dim_IntList", GUARDED(ops::count_nonzero));
  m.impl("var.correction", GUARDED(ops::var));
  m.impl("var.correction_out", GUARDED(ops::var_out));
  m.impl("std.correction", GUARDED(ops::std));
  m.impl("std.correction_out", GUARDED(ops::std_out));
  m.impl("var_mean.correction", GUARDED(ops::var_mean));
  m.impl("std_mean.correction", GUARDED(ops::std_mean));
  m.impl("linalg_vector_norm.out", GUARDED(ops::linalg_vector_norm_out));
  m.impl("norm.out", GUARDED(ops::norm_out));
  m.impl("norm.dtype_out", GUARDED(ops::norm_dtype_out));
  m.impl("renorm.out", GUARDED(ops::renorm_out));
  m.impl("logsumexp", GUARDED(ops::logsumexp));
  m.impl("logsumexp.out", GUARDED(ops::logsumexp_out));
  m.impl("trace", GUARDED(ops::trace));
  m.impl("equal", GUARDED(ops::equal));
}

}  // namespace
}  // namespace aule::aten
