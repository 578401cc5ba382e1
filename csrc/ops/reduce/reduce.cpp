#include "ops/reduce/reduce.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/WrapDimUtils.h>

#include <cmath>
#include <limits>

#include "ops/reduce/run.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

Reduction value(ReduceOp op, float arg = 0) { return {op, ReduceKind::value, arg, false}; }

at::Tensor& reduce_out(const char* name, const Reduction& r, const at::Tensor& self, const DimMask& mask, bool keepdim,
                       at::Tensor& out) {
  at::native::resize_output(out, reduced_shape(self, mask, keepdim));
  run_reduction(name, r, self, mask, out);
  return out;
}

DimMask one_dim(const at::Tensor& self, std::optional<int64_t> dim) {
  if (!dim.has_value()) return DimMask().set();
  DimMask mask;
  mask.set(at::maybe_wrap_dim(*dim, self.dim()));
  return mask;
}

// dtype= converts the input first. The kernel's arithmetic does this between float32, half types and integers. An
// integer result of float64 needs a copy.
at::Tensor converted(const at::Tensor& self, at::ScalarType to) {
  const bool narrow = self.scalar_type() == at::kDouble && to != at::kDouble;
  const bool is_other = self.is_complex() != at::isComplexType(to);
  return narrow || is_other ? self.to(to) : self;
}

void check_out_type(const char* name, OptionalType dtype, const at::Tensor& out) {
  TORCH_CHECK(!dtype.has_value() || *dtype == out.scalar_type(), name, ": expected out to have dtype ",
              dtype.value_or(out.scalar_type()), " as dtype= says, but got ", out.scalar_type());
}

void check_not_empty(const char* name, const at::Tensor& self, const DimMask& mask, const char* hint) {
  for (int64_t d = 0; d < self.dim(); ++d)
    TORCH_CHECK_INDEX(!mask[d] || self.size(d) != 0, name, "(): Expected reduction dim ", d, " to have non-zero size.",
                      hint);
}

at::Tensor& sum_like(const char* name, ReduceOp op, const at::Tensor& self, const DimMask& mask, bool keepdim,
                     OptionalType dtype, at::Tensor& out) {
  check_out_type(name, dtype, out);
  return reduce_out(name, value(op), converted(self, out.scalar_type()), mask, keepdim, out);
}

// The parts of complex numbers as a last dimension, which is kept or reduced.
struct Parts {
  at::Tensor tensor;
  DimMask mask;
};
Parts parts_of(const at::Tensor& self, DimMask mask, bool reduced) {
  mask.set(static_cast<size_t>(self.dim()), reduced);
  return {at::view_as_real(self.resolve_conj()), mask};
}
at::TensorOptions real_options(const at::Tensor& self) {
  return self.options().dtype(c10::toRealValueType(self.scalar_type()));
}
// The operand of any, all and counts.
at::Tensor truths(const at::Tensor& self) { return self.is_complex() ? at::ne(self, 0) : self; }

at::ScalarType sum_type(const at::Tensor& self, OptionalType dtype) {
  if (dtype.has_value()) return *dtype;
  return at::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::kLong : self.scalar_type();
}

at::Tensor new_result(const at::Tensor& self, const DimMask& mask, bool keepdim, at::ScalarType type) {
  return at::empty(reduced_shape(self, mask, keepdim), self.options().dtype(type));
}

std::tuple<at::Tensor&, at::Tensor&> extreme_dim(const char* name, bool minimum, const at::Tensor& self, int64_t dim,
                                                 bool keepdim, at::Tensor& values, at::Tensor& indices) {
  const DimMask mask = one_dim(self, dim);
  if (self.dim() > 0) check_not_empty(name, self, mask, "");
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), name, "(): expected values of dtype ", self.scalar_type(),
              ", but got ", values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == at::kLong, name, "(): expected indices of dtype Long, but got ",
              indices.scalar_type());
  const auto shape = reduced_shape(self, mask, keepdim);
  at::native::resize_output(values, shape);
  at::native::resize_output(indices, shape);
  run_reduction(name, {ReduceOp::max, ReduceKind::arg, 0, minimum}, self, mask, values, indices);
  return {values, indices};
}

at::Tensor& arg_extreme(const char* name, bool minimum, const at::Tensor& self, std::optional<int64_t> dim,
                        bool keepdim, at::Tensor& out) {
  const DimMask mask = one_dim(self, dim);
  if (dim.has_value()) {
    if (self.dim() > 0) check_not_empty(name, self, mask, "");
  } else {
    TORCH_CHECK_INDEX(self.numel() != 0, name, "(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  TORCH_CHECK(out.scalar_type() == at::kLong, name, "(): expected out of dtype Long, but got ", out.scalar_type());
  at::native::resize_output(out, reduced_shape(self, mask, keepdim));
  run_reduction(name, {ReduceOp::max, ReduceKind::arg, 0, minimum}, self, mask, at::Tensor(), out);
  return out;
}

at::Tensor extreme_all(const char* name, ReduceOp op, const at::Tensor& self, at::Tensor out) {
  TORCH_CHECK(self.numel() > 0, name, "(): Expected reduction dim to be specified for input.numel() == 0.");
  if (!out.defined()) out = at::empty({}, self.options());
  at::native::resize_output(out, {});
  run_reduction(name, value(op), self, DimMask().set(), out);
  return out;
}

at::Tensor& extreme_dims(const char* name, ReduceOp op, const at::Tensor& self, at::IntArrayRef dim, bool keepdim,
                         at::Tensor& out) {
  const DimMask mask = reduced_dims(dim, self.dim());
  check_not_empty(name, self, mask, dim.empty() ? " Specify the reduction dim with the 'dim' argument." : "");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), name, "(): expected out of dtype ", self.scalar_type(),
              ", but got ", out.scalar_type());
  return reduce_out(name, value(op), self, mask, keepdim, out);
}

// Variance or standard deviation, and the mean if `mean` is given.
void moments(const char* name, ReduceOp op, const at::Tensor& self, at::OptionalIntArrayRef dim,
             const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out, at::Tensor* mean) {
  const DimMask mask = reduced_dims(dim, self.dim());
  const auto shape = reduced_shape(self, mask, keepdim);
  if (self.is_complex()) {  // the sum of both parts' variances
    const Parts parts = parts_of(self, mask, /*reduced=*/false);
    std::vector<int64_t> both = shape;
    both.push_back(2);
    at::Tensor variances = at::empty(both, parts.tensor.options());
    const float c = correction.has_value() ? correction->to<float>() : 1.0f;
    run_reduction(name, {ReduceOp::var, ReduceKind::moments, c, false}, parts.tensor, parts.mask, variances);
    const at::Tensor variance = variances.sum(-1);
    hand_over(op == ReduceOp::std ? variance.sqrt() : variance, out);
    if (mean) hand_over(at::mean(self, dim, keepdim), *mean);
    return;
  }
  check_floating(name, self);
  at::native::resize_output(out, shape);
  if (mean) at::native::resize_output(*mean, shape);
  const float c = correction.has_value() ? correction->to<float>() : 1.0f;
  run_reduction(name, {op, ReduceKind::moments, c, false}, self, mask, out, mean ? *mean : at::Tensor());
  if (mean && self.numel() == 0) mean->fill_(std::numeric_limits<double>::quiet_NaN());  // 0 / 0, as the variance
}

}  // namespace

at::Tensor& sum_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, OptionalType dtype,
                    at::Tensor& out) {
  return sum_like("sum", ReduceOp::sum, self, reduced_dims(dim, self.dim()), keepdim, dtype, out);
}

at::Tensor& mean_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, OptionalType dtype,
                     at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(out.scalar_type()) || out.is_complex(),
                              "mean(): could not infer output dtype. Expected a floating point dtype, but got ",
                              out.scalar_type());
  return sum_like("mean", ReduceOp::mean, self, reduced_dims(dim, self.dim()), keepdim, dtype, out);
}

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, OptionalType dtype) {
  at::Tensor out = new_result(self, reduced_dims(dim, self.dim()), keepdim, sum_type(self, dtype));
  return nansum_out(self, dim, keepdim, dtype, out);
}
at::Tensor& nansum_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, OptionalType dtype,
                       at::Tensor& out) {
  if (self.is_complex()) {  // as torch.cuda; the CPU refuses
    const at::Tensor numbers = at::where(at::isnan(self), at::zeros({}, self.options()), self);
    return at::sum_out(out, numbers, dim, keepdim, dtype);
  }
  return sum_like("nansum", ReduceOp::nansum, self, reduced_dims(dim, self.dim()), keepdim, dtype, out);
}

at::Tensor prod(const at::Tensor& self, OptionalType dtype) {
  at::Tensor out = at::empty({}, self.options().dtype(sum_type(self, dtype)));
  return sum_like("prod", ReduceOp::prod, self, DimMask().set(), false, dtype, out);
}
at::Tensor& prod_out(const at::Tensor& self, int64_t dim, bool keepdim, OptionalType dtype, at::Tensor& out) {
  return sum_like("prod", ReduceOp::prod, self, one_dim(self, dim), keepdim, dtype, out);
}

at::Tensor& amax_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  return extreme_dims("amax", ReduceOp::max, self, dim, keepdim, out);
}
at::Tensor& amin_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  return extreme_dims("amin", ReduceOp::min, self, dim, keepdim, out);
}
at::Tensor max(const at::Tensor& self) { return extreme_all("max", ReduceOp::max, self, {}); }
at::Tensor min(const at::Tensor& self) { return extreme_all("min", ReduceOp::min, self, {}); }
at::Tensor& max_unary_out(const at::Tensor& self, at::Tensor& out) {
  extreme_all("max", ReduceOp::max, self, out);
  return out;
}
at::Tensor& min_unary_out(const at::Tensor& self, at::Tensor& out) {
  extreme_all("min", ReduceOp::min, self, out);
  return out;
}

std::tuple<at::Tensor&, at::Tensor&> max_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                                 at::Tensor& indices) {
  return extreme_dim("max", false, self, dim, keepdim, values, indices);
}
std::tuple<at::Tensor&, at::Tensor&> min_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                                 at::Tensor& indices) {
  return extreme_dim("min", true, self, dim, keepdim, values, indices);
}

std::tuple<at::Tensor&, at::Tensor&> aminmax_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim,
                                                 at::Tensor& min, at::Tensor& max) {
  const DimMask mask = one_dim(self, dim);
  if (self.dim() > 0) check_not_empty("aminmax", self, mask, "");
  const auto shape = reduced_shape(self, mask, keepdim);
  at::native::resize_output(min, shape);
  at::native::resize_output(max, shape);
  run_reduction("aminmax", {ReduceOp::max, ReduceKind::minmax, 0, false}, self, mask, min, max);
  return {min, max};
}
std::tuple<at::Tensor, at::Tensor> aminmax_all(const at::Tensor& self) {
  at::Tensor min = at::empty({}, self.options()), max = at::empty({}, self.options());
  aminmax_out(self, std::nullopt, false, min, max);
  return {min, max};
}
std::tuple<at::Tensor, at::Tensor> aminmax_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  const DimMask mask = one_dim(self, dim);
  at::Tensor min = new_result(self, mask, keepdim, self.scalar_type()), max = at::empty(min.sizes(), min.options());
  aminmax_out(self, dim, keepdim, min, max);
  return {min, max};
}

at::Tensor& argmax_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, at::Tensor& out) {
  return arg_extreme("argmax", false, self, dim, keepdim, out);
}
at::Tensor& argmin_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, at::Tensor& out) {
  return arg_extreme("argmin", true, self, dim, keepdim, out);
}

at::Tensor& any_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& out) {
  return reduce_out("any", value(ReduceOp::any), truths(self), one_dim(self, dim), keepdim, out);
}
at::Tensor& all_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& out) {
  return reduce_out("all", value(ReduceOp::all), truths(self), one_dim(self, dim), keepdim, out);
}
at::Tensor& any_all_out(const at::Tensor& self, at::Tensor& out) {
  return reduce_out("any", value(ReduceOp::any), truths(self), DimMask().set(), false, out);
}
at::Tensor& all_all_out(const at::Tensor& self, at::Tensor& out) {
  return reduce_out("all", value(ReduceOp::all), truths(self), DimMask().set(), false, out);
}
at::Tensor count_nonzero(const at::Tensor& self, at::IntArrayRef dim) {
  const DimMask mask = reduced_dims(dim, self.dim());
  at::Tensor out = new_result(self, mask, false, at::kLong);
  return reduce_out("count_nonzero", value(ReduceOp::count), truths(self), mask, false, out);
}

at::Tensor var(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
               bool keepdim) {
  at::Tensor out = at::empty({0}, real_options(self));
  return var_out(self, dim, correction, keepdim, out);
}
at::Tensor& var_out(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
                    bool keepdim, at::Tensor& out) {
  moments("var", ReduceOp::var, self, dim, correction, keepdim, out, nullptr);
  return out;
}
at::Tensor std(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
               bool keepdim) {
  at::Tensor out = at::empty({0}, real_options(self));
  return std_out(self, dim, correction, keepdim, out);
}
at::Tensor& std_out(const at::Tensor& self, at::OptionalIntArrayRef dim, const std::optional<at::Scalar>& correction,
                    bool keepdim, at::Tensor& out) {
  moments("std", ReduceOp::std, self, dim, correction, keepdim, out, nullptr);
  return out;
}
std::tuple<at::Tensor, at::Tensor> var_mean(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim) {
  at::Tensor out = at::empty({0}, real_options(self)), mean = at::empty({0}, self.options());
  moments("var_mean", ReduceOp::var, self, dim, correction, keepdim, out, &mean);
  return {out, mean};
}
std::tuple<at::Tensor, at::Tensor> std_mean(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim) {
  at::Tensor out = at::empty({0}, real_options(self)), mean = at::empty({0}, self.options());
  moments("std_mean", ReduceOp::std, self, dim, correction, keepdim, out, &mean);
  return {out, mean};
}

at::Tensor& linalg_vector_norm_out(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim,
                                   bool keepdim, OptionalType dtype, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) || self.is_complex(),
                              "linalg.vector_norm: expected a floating point input, but got ", self.scalar_type());
  if (dtype.has_value()) check_out_type("linalg.vector_norm", c10::toRealValueType(*dtype), out);
  const double p = ord.to<double>();
  const DimMask mask = reduced_dims(dim, self.dim());
  if (p < 0 || std::isinf(p))
    check_not_empty("linalg.vector_norm", self, mask, " The norm of this order has no identity.");
  const ReduceOp op = p == 0          ? ReduceOp::count
                      : p == 1        ? ReduceOp::norm1
                      : p == 2        ? ReduceOp::norm2
                      : std::isinf(p) ? (p > 0 ? ReduceOp::norm_max : ReduceOp::norm_min)
                                      : ReduceOp::norm_p;
  if (self.is_complex()) {
    const int64_t kept = c10::multiply_integers(reduced_shape(self, mask, keepdim));
    const bool is_one = op == ReduceOp::norm2 && kept == self.numel();  // the absolute value, which overflows later
    if (op != ReduceOp::norm2 || is_one)
      return ops::linalg_vector_norm_out(at::abs(self), is_one ? at::Scalar(1) : ord, dim, keepdim, std::nullopt, out);
    at::native::resize_output(out, reduced_shape(self, mask, keepdim));
    const Parts parts = parts_of(self, mask, /*reduced=*/true);
    run_reduction("linalg.vector_norm", value(op), parts.tensor, parts.mask, keepdim ? out.unsqueeze(-1) : out);
    return out;
  }
  if (op == ReduceOp::count && out.scalar_type() == at::kDouble) {  // counts in int64, which convert by a copy
    at::Tensor count = at::empty({0}, out.options().dtype(at::kLong));
    reduce_out("linalg.vector_norm", value(op, 0), self, mask, keepdim, count);
    return hand_over(count, out);
  }
  return reduce_out("linalg.vector_norm", value(op, static_cast<float>(p)), self, mask, keepdim, out);
}
at::Tensor& norm_out(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim, bool keepdim,
                     at::Tensor& out) {
  return linalg_vector_norm_out(self, p.value_or(2), dim, keepdim, std::nullopt, out);
}
at::Tensor& norm_dtype_out(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim,
                           bool keepdim, at::ScalarType dtype, at::Tensor& out) {
  return linalg_vector_norm_out(self, p.value_or(2), dim, keepdim, dtype, out);
}

at::Tensor& renorm_out(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm,
                       at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  std::vector<int64_t> others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != dim) others.push_back(d);
  // The norm of a float16 row may be larger than float16 has.
  const auto type =
      self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16 ? at::kFloat : self.scalar_type();
  at::Tensor norm = at::linalg_vector_norm(self, p, others, /*keepdim=*/true, type);
  // maxnorm / (norm + 1e-7) if the norm is too large, else 1. A clamped quotient would rescale rows just below maxnorm.
  at::Tensor factor = norm.add(1e-7).reciprocal().mul(maxnorm);
  factor = at::where(norm.gt(maxnorm), factor, at::ones_like(factor));
  at::native::resize_output(out, self.sizes());
  return at::mul_out(out, self, factor);
}

at::Tensor logsumexp(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  at::Tensor out = at::empty(
      {0}, self.options().dtype(integral ? at::typeMetaToScalarType(at::get_default_dtype()) : self.scalar_type()));
  return logsumexp_out(self, dim, keepdim, out);
}
at::Tensor& logsumexp_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  if (out.is_complex()) {
    const at::Tensor x = self.to(out.scalar_type());
    if (x.numel() == 0) return hand_over(at::log(at::sum(at::exp(x), dim, keepdim)), out);
    at::Tensor largest = at::amax(at::real(x), dim, /*keepdim=*/true);
    largest.masked_fill_(at::isinf(largest), 0);
    const at::Tensor sum = at::sum(at::exp(at::sub(x, largest)), dim, /*keepdim=*/true);
    const at::Tensor result = at::add(at::log(sum), largest);
    return hand_over(keepdim ? result : result.view(reduced_shape(self, reduced_dims(dim, self.dim()), false)), out);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(out.scalar_type()),
                              "logsumexp(): expected out of a floating point dtype, but got ", out.scalar_type());
  const Reduction r{ReduceOp::lse, ReduceKind::lse, 0, false};
  return reduce_out("logsumexp", r, self, reduced_dims(dim, self.dim()), keepdim, out);
}

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return at::sum(at::diagonal(self));
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "equal: expected both tensors on one device, but got ", self.device(),
              " and ", other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "equal: expected one dtype, but got ", self.scalar_type(),
              " and ", other.scalar_type());
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::all(at::eq(self, other)).item<bool>();
}

}  // namespace aule::ops
