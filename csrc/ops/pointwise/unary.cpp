#include "ops/pointwise/unary.h"

#include <ATen/Dispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/mvlgamma.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/TensorIterator.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/copy/kernels.h"
#include "ops/pointwise/pointwise.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {
namespace {

// An op that returns integers unchanged.
at::Tensor& copy_integers(const at::Tensor& self, at::Tensor& out) {
  return unary(unary_entry::conj_physical, out, self);
}

}  // namespace

at::Tensor& logical_not_out(const at::Tensor& self, at::Tensor& out) {
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .check_all_same_dtype(false)
                                .set_check_mem_overlap(true)
                                .add_output(out)
                                .add_const_input(self)
                                .build();
  run_pointwise(unary_entry::logical_not, iter, self.scalar_type(), {});
  return out;
}
at::Tensor logical_not(const at::Tensor& self) {
  at::Tensor out;
  return unary(unary_entry::logical_not, out, self);
}
at::Tensor& logical_not_(at::Tensor& self) { return ops::logical_not_out(self, self); }

at::Tensor& bitwise_not_out(const at::Tensor& self, at::Tensor& out) {
  if (self.scalar_type() == at::kBool) return unary(unary_entry::logical_not, Rule::same, out, self);
  return unary(unary_entry::bitwise_not, out, self);
}
at::Tensor bitwise_not(const at::Tensor& self) {
  at::Tensor out;
  return ops::bitwise_not_out(self, out);
}
at::Tensor& bitwise_not_(at::Tensor& self) { return ops::bitwise_not_out(self, self); }

at::Tensor& round_decimals_out(const at::Tensor& self, int64_t decimals, at::Tensor& out) {
  if (c10::isIntegralType(self.scalar_type(), true)) return copy_integers(self, out);
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return unary(unary_entry::round_decimals, Rule::same, out, self, {power, decimals >= 0 ? 1.0 : 0.0});
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: expected out to have dtype ", self.scalar_type(),
              ", but got ", out.scalar_type());
  if (c10::isIntegralType(self.scalar_type(), true)) return copy_integers(self, out);
  if (self.is_complex()) {  // each part for itself
    at::native::resize_output(out, self.sizes());
    at::Tensor parts = at::view_as_real(out);
    nan_to_num_out(at::view_as_real(self), nan, posinf, neginf, parts);
    return out;
  }
  double largest = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "nan_to_num",
                                  [&] { largest = static_cast<double>(std::numeric_limits<scalar_t>::max()); });
  return unary(unary_entry::nan_to_num, Rule::same, out, self,
               {nan.value_or(0.0), posinf.value_or(largest), neginf.value_or(-largest)});
}

at::Tensor& angle_out(const at::Tensor& self, at::Tensor& out) { return unary(unary_entry::angle, out, self); }
at::Tensor angle(const at::Tensor& self) {
  at::Tensor out;
  return ops::angle_out(self, out);
}

at::Tensor& logit_out(const at::Tensor& self, std::optional<double> eps, at::Tensor& out) {
  return unary(unary_entry::logit, out, self, {eps.value_or(-1.0)});
}
at::Tensor logit(const at::Tensor& self, std::optional<double> eps) {
  at::Tensor out;
  return ops::logit_out(self, eps, out);
}
at::Tensor& logit_(at::Tensor& self, std::optional<double> eps) { return ops::logit_out(self, eps, self); }

at::Tensor& mvlgamma_out(const at::Tensor& self, int64_t p, at::Tensor& out) {
  return hand_over(at::mvlgamma(self, p), out);
}

at::Tensor& polygamma_out(int64_t n, const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "polygamma: expected n >= 0, got ", n);
  if (n <= 1) return unary(n == 0 ? unary_entry::digamma : unary_entry::trigamma, out, self);
  const double order = static_cast<double>(n), factorial = std::tgamma(order + 1.0);
  return unary(unary_entry::polygamma, out, self, {order + 1.0, n % 2 == 0 ? -factorial : factorial});
}

std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  // The exponent first: the mantissa may be written over self.
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .check_all_same_dtype(false)
                                .set_check_mem_overlap(true)
                                .add_output(exponent)
                                .add_const_input(self)
                                .build();
  run_pointwise(unary_entry::frexp_exponent, iter, self.scalar_type(), {});
  unary(unary_entry::frexp_mantissa, mantissa, self);
  return {mantissa, exponent};
}

namespace {

enum class Bound { lower, upper };

// A bound in the tensor's dtype, as on the CPU of this torch.
template <class T>
at::Scalar bound_in(const at::Scalar& bound, Bound side, c10::ScalarType dtype) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  (void)side, (void)dtype;
  return at::Scalar(static_cast<int64_t>(bound.to<T>()));  // -1 is 255 in uint8; what is further out raises
#else
  // One that every value of the dtype obeys is as good as none; one that no value obeys raises.
  const int64_t value = bound.to<int64_t>();
  constexpr int64_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  TORCH_CHECK(side == Bound::lower ? value <= most : value >= least, "Clamp ", side == Bound::lower ? "min" : "max",
              " value ", bound.to<double>(), " is outside the representable range of ", dtype);
  return at::Scalar(std::clamp(value, least, most));
#endif
}
at::Scalar in_dtype(const at::Scalar& bound, Bound side, c10::ScalarType dtype) {
  switch (dtype) {
    case at::kByte: return bound_in<uint8_t>(bound, side, dtype);
    case at::kChar: return bound_in<int8_t>(bound, side, dtype);
    case at::kShort: return bound_in<int16_t>(bound, side, dtype);
    case at::kInt: return bound_in<int32_t>(bound, side, dtype);
    default: return bound;
  }
}

at::Tensor& clamp_impl(const at::Tensor& self, const at::Scalar* min, const at::Scalar* max, at::Tensor& out) {
  TORCH_CHECK(min != nullptr || max != nullptr, "clamp: at least one of min or max must not be None");
  at::Tensor converted;
  const at::Tensor* x = &self;
  if (!c10::isFloatingType(self.scalar_type())) {  // a float bound makes an integer tensor float
    at::native::ResultTypeState state = at::native::update_result_type_state(self, {});
    if (min) state = at::native::update_result_type_state(*min, state);
    if (max) state = at::native::update_result_type_state(*max, state);
    const c10::ScalarType common = at::native::result_type(state);
    if (common != self.scalar_type()) {
      converted = self.to(common);
      x = &converted;
    }
  }
  const auto lower = [&] { return in_dtype(*min, Bound::lower, x->scalar_type()); };
  const auto upper = [&] { return in_dtype(*max, Bound::upper, x->scalar_type()); };
  if (min && max) return unary(unary_entry::clamp, out, *x, {lower(), upper()});
  return min ? unary(unary_entry::clamp_min, out, *x, {lower()}) : unary(unary_entry::clamp_max, out, *x, {upper()});
}

}  // namespace

at::Tensor& clamp_out(const at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max, at::Tensor& out) {
  return clamp_impl(self, min ? &*min : nullptr, max ? &*max : nullptr, out);
}
at::Tensor clamp(const at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max) {
  at::Tensor out;
  return ops::clamp_out(self, min, max, out);
}
at::Tensor& clamp_(at::Tensor& self, const OptionalScalar& min, const OptionalScalar& max) {
  return ops::clamp_out(self, min, max, self);
}
at::Tensor& clamp_min_out(const at::Tensor& self, const at::Scalar& min, at::Tensor& out) {
  return clamp_impl(self, &min, nullptr, out);
}
at::Tensor& clamp_max_out(const at::Tensor& self, const at::Scalar& max, at::Tensor& out) {
  return clamp_impl(self, nullptr, &max, out);
}
at::Tensor& clamp_min_tensor_out(const at::Tensor& self, const at::Tensor& min, at::Tensor& out) {
  return binary(binary_entry::maximum, out, self, min);
}
at::Tensor& clamp_max_tensor_out(const at::Tensor& self, const at::Tensor& max, at::Tensor& out) {
  return binary(binary_entry::minimum, out, self, max);
}
at::Tensor& clamp_tensor_out(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max,
                             at::Tensor& out) {
  TORCH_CHECK(min || max, "clamp: at least one of min or max must not be None");
  if (!max) return ops::clamp_min_tensor_out(self, *min, out);
  if (!min) return ops::clamp_max_tensor_out(self, *max, out);
  return ternary(ternary_entry::clamp, out, self, *min, *max);
}

}  // namespace aule::ops
