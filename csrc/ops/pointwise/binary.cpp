#include "ops/pointwise/binary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ScalarOps.h>

#include "ops/copy/kernels.h"
#include "ops/pointwise/pointwise.h"
#include "ops/tensor/contiguous_out.h"

namespace aule::ops {

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  at::native::alpha_check(at::result_type(self, other), alpha);
  return binary(binary_entry::add, out, self, other, {alpha});
}
at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::Tensor out;
  return ops::add_out(self, other, alpha, out);
}
at::Tensor& add_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return ops::add_out(self, other, alpha, self);
}

at::Tensor& sub_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  at::native::sub_check(self, other);
  at::native::alpha_check(at::result_type(self, other), alpha);
  return binary(binary_entry::sub, out, self, other, {alpha});
}
at::Tensor sub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::Tensor out;
  return ops::sub_out(self, other, alpha, out);
}
at::Tensor& sub_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return ops::sub_out(self, other, alpha, self);
}
at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return ops::sub(other, self, alpha);
}

at::Tensor& div_mode_out(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode,
                         at::Tensor& out) {
  if (!rounding_mode) return binary(binary_entry::div, out, self, other);
  TORCH_CHECK(*rounding_mode == "trunc" || *rounding_mode == "floor",
              "div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode, "'");
  return binary(*rounding_mode == "trunc" ? binary_entry::div_trunc : binary_entry::div_floor, out, self, other);
}
at::Tensor div_mode(const at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode) {
  at::Tensor out;
  return div_mode_out(self, other, rounding_mode, out);
}
at::Tensor& div_mode_(at::Tensor& self, const at::Tensor& other, std::optional<std::string_view> rounding_mode) {
  return div_mode_out(self, other, rounding_mode, self);
}
at::Tensor remainder_scalar_tensor(const at::Scalar& self, const at::Tensor& other) {
  at::Tensor out;
  return binary(binary_entry::remainder, out, at::native::wrapped_scalar_tensor(self), other);
}

// A step is one of the common dtype, which the arithmetic type does not tell.
at::Tensor& nextafter_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const c10::ScalarType common = at::result_type(self, other);
  const DType step = common == at::kHalf ? DType::f16 : common == at::kBFloat16 ? DType::bf16 : DType::f32;
  return binary(binary_entry::nextafter, out, self, other, {static_cast<int64_t>(step)});
}
at::Tensor nextafter(const at::Tensor& self, const at::Tensor& other) {
  at::Tensor out;
  return ops::nextafter_out(self, other, out);
}
at::Tensor& nextafter_(at::Tensor& self, const at::Tensor& other) { return ops::nextafter_out(self, other, self); }

at::Tensor& pow_out(const at::Tensor& self, const at::Tensor& exponent, at::Tensor& out) {
  const c10::ScalarType common = at::result_type(self, exponent);
  TORCH_CHECK_NOT_IMPLEMENTED(common != at::kBool, "pow: not implemented for Bool");
  const bool integral = c10::isIntegralType(common, false);
  return binary(integral ? binary_entry::pow_int : binary_entry::pow_float, Rule::same, out, self, exponent);
}
at::Tensor pow(const at::Tensor& self, const at::Tensor& exponent) {
  at::Tensor out;
  return ops::pow_out(self, exponent, out);
}

namespace {

// The entry that computes x^e more exactly than a power does, or null.
const Entry* entry_of_power(double e) {
  return e == 2      ? &unary_entry::square
         : e == 3    ? &unary_entry::cube
         : e == 0.5  ? &unary_entry::sqrt
         : e == -0.5 ? &unary_entry::rsqrt
         : e == -1   ? &unary_entry::reciprocal
         : e == -2   ? &unary_entry::inverse_square
                     : nullptr;
}

at::Tensor& complex_pow_out(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out) {
  const at::Tensor base = self.to(at::result_type(self, exponent));
  if (exponent.equal(0.0) || exponent.equal(1.0)) {
    const at::Tensor result = exponent.equal(0.0) ? at::ones_like(base) : base.clone();
    return out.defined() ? hand_over(result, out) : out = result;
  }
  const c10::complex<double> e = exponent.toComplexDouble();
  const Entry* entry = e.imag() == 0 ? entry_of_power(e.real()) : nullptr;
  if (entry != nullptr) return unary(*entry, out, base);
  return binary(binary_entry::pow_float, Rule::same, out, base, at::native::wrapped_scalar_tensor(exponent));
}

}  // namespace

at::Tensor& pow_tensor_scalar_out(const at::Tensor& self, const at::Scalar& exponent, at::Tensor& out) {
  const c10::ScalarType common = at::result_type(self, exponent);
  if (c10::isComplexType(common)) return complex_pow_out(self, exponent, out);
  if (!c10::isFloatingType(common)) {
    TORCH_CHECK(!c10::isIntegralType(common, true) || exponent.toLong() >= 0,
                "Integers to negative integer powers are not allowed.");
    return ops::pow_out(self, at::native::wrapped_scalar_tensor(exponent), out);
  }
  const Entry* entry = entry_of_power(exponent.toDouble());
  return unary(entry != nullptr ? *entry : unary_entry::pow_scalar, out, self, {exponent});
}
at::Tensor pow_tensor_scalar(const at::Tensor& self, const at::Scalar& exponent) {
  at::Tensor out;
  return pow_tensor_scalar_out(self, exponent, out);
}
at::Tensor& pow_scalar_out(const at::Scalar& self, const at::Tensor& exponent, at::Tensor& out) {
  const c10::ScalarType common = at::result_type(exponent, self);
  if (c10::isComplexType(common) && self.equal(1.0)) {
    at::native::resize_output(out, exponent.sizes());
    return out.fill_(1);
  }
  if (!c10::isFloatingType(common)) return ops::pow_out(at::native::wrapped_scalar_tensor(self), exponent, out);
  return unary(unary_entry::scalar_pow, out, exponent, {self});
}

at::Tensor ldexp(const at::Tensor& self, const at::Tensor& other) { return at::mul(self, at::pow(2.0, other)); }
at::Tensor& ldexp_(at::Tensor& self, const at::Tensor& other) { return self.mul_(at::pow(2.0, other)); }
at::Tensor& ldexp_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return at::mul_out(out, self, at::pow(2.0, other));
}

at::Tensor& lerp_scalar_out(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == end.scalar_type(), "lerp: expected dtype ", self.scalar_type(),
              " for `end`, but got dtype ", end.scalar_type());
  return binary(binary_entry::lerp_scalar, Rule::same, out, self, end, {weight});
}
at::Tensor lerp_scalar(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight) {
  at::Tensor out;
  return lerp_scalar_out(self, end, weight, out);
}
at::Tensor& lerp_scalar_(at::Tensor& self, const at::Tensor& end, const at::Scalar& weight) {
  return lerp_scalar_out(self, end, weight, self);
}
at::Tensor& lerp_tensor_out(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == end.scalar_type(), "lerp: expected dtype ", self.scalar_type(),
              " for `end`, but got dtype ", end.scalar_type());
  return ternary(ternary_entry::lerp, out, self, end, weight);
}

at::Tensor& addcmul_out(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2,
                        const at::Scalar& value, at::Tensor& out) {
  return ternary(ternary_entry::addcmul, out, self, tensor1, tensor2, {value});
}
at::Tensor& addcmul_(at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
  return ops::addcmul_out(self, tensor1, tensor2, value, self);
}
at::Tensor& addcdiv_out(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2,
                        const at::Scalar& value, at::Tensor& out) {
  TORCH_CHECK(
      !(c10::isIntegralType(tensor1.scalar_type(), true) && c10::isIntegralType(tensor2.scalar_type(), true)),
      "addcdiv: integer division is not supported; use (value * trunc(tensor1 / tensor2) + self) or true division");
  return ternary(ternary_entry::addcdiv, out, self, tensor1, tensor2, {value});
}
at::Tensor& addcdiv_(at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
  return ops::addcdiv_out(self, tensor1, tensor2, value, self);
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  at::Tensor out;
  return where_out(condition, self, other, out);
}

at::Tensor& masked_fill__tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_: expected a 0-dimensional value tensor, but got one with ", value.dim(),
              " dimensions");
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_: expected a boolean mask, but got dtype ",
              mask.scalar_type());
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, mask);
  const at::Tensor mask_like_self = mask.expand(self.sizes());
  return where_out(mask_like_self, value.to(self.scalar_type()), self, self);
}
at::Tensor& masked_fill__scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  return ops::masked_fill__tensor(self, mask, at::scalar_tensor(value, at::device(at::kCPU).dtype(self.scalar_type())));
}

}  // namespace aule::ops
