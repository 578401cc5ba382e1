#include "ops/sort/sort.h"

#include "aten/register.h"
#include "ops/sort/histogram.h"
#include "ops/sort/search.h"
#include "ops/sort/unique_rows.h"

namespace aule::aten {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl(ROW("sort.values_stable", ops::sort_out));
  m.impl(ROW("topk.values", ops::topk_out));
  m.impl(ROW("kthvalue.values", ops::kthvalue_out));
  m.impl(ROW("median", ops::median));
  m.impl(ROW("median.dim_values", ops::median_dim_out));
  m.impl(ROW("nanmedian", ops::nanmedian));
  m.impl(ROW("nanmedian.dim_values", ops::nanmedian_dim_out));
  m.impl(ROW("mode", ops::mode));
  m.impl(ROW("mode.values", ops::mode_out));

  m.impl(ROW("searchsorted.Tensor", ops::searchsorted));
  m.impl(ROW("searchsorted.Tensor_out", ops::searchsorted_out));
  m.impl(ROW("searchsorted.Scalar", ops::searchsorted_scalar));
  m.impl(ROW("searchsorted.Scalar_out", ops::searchsorted_scalar_out));
  m.impl(ROW("bucketize.Tensor", ops::bucketize));
  m.impl(ROW("bucketize.Tensor_out", ops::bucketize_out));
  m.impl(ROW("bucketize.Scalar", ops::bucketize_scalar));
  m.impl(ROW("isin.Tensor_Tensor_out", ops::isin_out));
  m.impl(ROW("isin.Tensor_Scalar_out", ops::isin_tensor_scalar_out));
  m.impl(ROW("isin.Scalar_Tensor_out", ops::isin_scalar_tensor_out));

  m.impl(ROW("_unique", ops::unique));
  m.impl(ROW("_unique2", ops::unique2));
  m.impl(ROW("unique_consecutive", ops::unique_consecutive));
  m.impl(ROW("unique_dim", ops::unique_dim));
  m.impl(ROW("unique_dim_consecutive", ops::unique_dim_consecutive));
  m.impl(ROW("nonzero", ops::nonzero));
  m.impl(ROW("nonzero.out", ops::nonzero_out));
  m.impl(ROW("nonzero_static", ops::nonzero_static));
  m.impl(ROW("histc", ops::histc));
  m.impl(ROW("histc.out", ops::histc_out));
  m.impl(ROW("histogram.bin_ct", ops::histogram_bin_ct));
  m.impl(ROW("histogram.bin_ct_out", ops::histogram_bin_ct_out));
  m.impl(ROW("histogram.bins_tensor", ops::histogram_bins_tensor));
  m.impl(ROW("histogram.bins_tensor_out", ops::histogram_bins_tensor_out));
  m.impl(ROW("_histogramdd_bin_edges", ops::histogramdd_bin_edges));
  m.impl(ROW("_histogramdd_from_bin_cts", ops::histogramdd_from_bin_cts));
  m.impl(ROW("_histogramdd_from_bin_tensors", ops::histogramdd_from_bin_tensors));
}

}  // namespace
}  // namespace aule::aten
