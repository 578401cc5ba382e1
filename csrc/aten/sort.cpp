#include "ops/sort.h"

#include "aten/register.h"
#include "ops/sort_search.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sort.values_stable", GUARDED(ops::sort_out));
  m.impl("topk.values", GUARDED(ops::topk_out));
  m.impl("kthvalue.values", GUARDED(ops::kthvalue_out));
  m.impl("median", GUARDED(ops::median));
  m.impl("median.dim_values", GUARDED(ops::median_dim_out));
  m.impl("nanmedian", GUARDED(ops::nanmedian));
  m.impl("nanmedian.dim_values", GUARDED(ops::nanmedian_dim_out));
  m.impl("mode", GUARDED(ops::mode));

  m.impl("searchsorted.Tensor", GUARDED(ops::searchsorted));
  m.impl("searchsorted.Tensor_out", GUARDED(ops::searchsorted_out));
  m.impl("searchsorted.Scalar", GUARDED(ops::searchsorted_scalar));
  m.impl("bucketize.Tensor", GUARDED(ops::bucketize));
  m.impl("bucketize.Tensor_out", GUARDED(ops::bucketize_out));
  m.impl("bucketize.Scalar", GUARDED(ops::bucketize_scalar));
  m.impl("isin.Tensor_Tensor_out", GUARDED(ops::isin_out));
  m.impl("isin.Tensor_Scalar_out", GUARDED(ops::isin_tensor_scalar_out));
  m.impl("isin.Scalar_Tensor_out", GUARDED(ops::isin_scalar_tensor_out));

  m.impl("_unique", GUARDED(ops::unique));
  m.impl("_unique2", GUARDED(ops::unique2));
  m.impl("unique_consecutive", GUARDED(ops::unique_consecutive));
  m.impl("nonzero", GUARDED(ops::nonzero));
  m.impl("nonzero.out", GUARDED(ops::nonzero_out));
  m.impl("nonzero_static", GUARDED(ops::nonzero_static));
  m.impl("histc", GUARDED(ops::histc));
}

}  // namespace
}  // namespace aule::aten
