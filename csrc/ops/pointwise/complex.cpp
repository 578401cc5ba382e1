#include "ops/pointwise/complex.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/view_as_real.h>

#include "ops/pointwise/pointwise.h"

namespace aule::ops {
namespace {

// Checks the operands and gives `out` its size. Returns its parts as real tensors.
std::array<at::Tensor, 2> parts_of(const char* op, const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  const auto is_wide = [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
  };
  TORCH_CHECK((is_wide(a) || a.scalar_type() == at::kHalf) && (is_wide(b) || b.scalar_type() == at::kHalf),
              "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(), " and ",
              b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
              " but got scalar type ", b.scalar_type(), " for second argument");
  const c10::ScalarType expected = c10::toComplexType(a.scalar_type());
  TORCH_CHECK(out.scalar_type() == expected, "Expected object of scalar type ", expected, " but got scalar type ",
              out.scalar_type(), " for argument 'out' of ", op);
  at::native::resize_output(out, at::infer_size(a.sizes(), b.sizes()));
  const at::Tensor parts = at::view_as_real(out);
  return {parts.select(-1, 0), parts.select(-1, 1)};
}

}  // namespace

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out) {
  const auto parts = parts_of("complex", real, imag, out);
  parts[0].copy_(real);
  parts[1].copy_(imag);
  return out;
}

at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(abs.scalar_type() != at::kHalf, "polar: not implemented for Half");
  const auto parts = parts_of("polar", abs, angle, out);
  at::Tensor real = parts[0], imaginary = parts[1];
  binary(binary_entry::mul, real, abs, angle.cos());
  binary(binary_entry::mul, imaginary, abs, angle.sin());
  return out;
}

// Copies resolve the conjugate bits of both tensors, with which PyTorch calls these operators.
at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  if (!self.is_complex()) return unary(unary_entry::conj_physical, out, self);
  at::native::resize_output(out, self.sizes());
  return out.copy_(self.conj());
}
at::Tensor& conj_physical_(at::Tensor& self) {
  return self.is_complex() ? self.copy_(self.conj().resolve_conj()) : self;
}

}  // namespace aule::ops
