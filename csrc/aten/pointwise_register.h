// Turns rows into typed functions of the ATen signatures, by template: no boxing, no lookup on the way.
#pragma once
#include <ATen/ScalarOps.h>

#include "aten/register.h"
#include "ops/pointwise/pointwise.h"

namespace aule::aten {

template <const ops::Row& row>
struct Unary {
  static at::Tensor functional(const at::Tensor& a) {
    at::Tensor out;
    return ops::unary(row, out, a);
  }
  static at::Tensor& in_place(at::Tensor& a) { return ops::unary(row, a, a); }
  static at::Tensor& out(const at::Tensor& a, at::Tensor& out) { return ops::unary(row, out, a); }
};

template <const ops::Row& row>
struct Binary {
  static at::Tensor functional(const at::Tensor& a, const at::Tensor& b) {
    at::Tensor out;
    return ops::binary(row, out, a, b);
  }
  static at::Tensor& in_place(at::Tensor& a, const at::Tensor& b) { return ops::binary(row, a, a, b); }
  static at::Tensor& out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
    return ops::binary(row, out, a, b);
  }

  static at::Tensor scalar(const at::Tensor& a, const at::Scalar& b) {
    at::Tensor out;
    return ops::binary(row, out, a, at::native::wrapped_scalar_tensor(b));
  }
  static at::Tensor& scalar_in_place(at::Tensor& a, const at::Scalar& b) {
    return ops::binary(row, a, a, at::native::wrapped_scalar_tensor(b));
  }
  static at::Tensor& scalar_out(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
    return ops::binary(row, out, a, at::native::wrapped_scalar_tensor(b));
  }
};

}  // namespace aule::aten

#define AULE_ROW_F(arity, row, name) m.impl(ROW(#name, (arity<row>::functional)));
#define AULE_ROW_O(arity, row, name) m.impl(ROW(#name ".out", (arity<row>::out)));
#define AULE_ROW_FO(arity, row, name) AULE_ROW_F(arity, row, name) AULE_ROW_O(arity, row, name)
#define AULE_ROW_FIO(arity, row, name) AULE_ROW_FO(arity, row, name) m.impl(ROW(#name "_", (arity<row>::in_place)));
#define AULE_ROW_TIO(arity, row, name)                        \
  m.impl(ROW(#name ".Tensor", (arity<row>::functional))); \
  m.impl(ROW(#name "_.Tensor", (arity<row>::in_place)));  \
  m.impl(ROW(#name ".Tensor_out", (arity<row>::out)));
#define AULE_ROW_SIO(arity, row, name)                              \
  AULE_ROW_TIO(arity, row, name)                                    \
  m.impl(ROW(#name ".Scalar", (arity<row>::scalar)));           \
  m.impl(ROW(#name "_.Scalar", (arity<row>::scalar_in_place))); \
  m.impl(ROW(#name ".Scalar_out", (arity<row>::scalar_out)));
#define AULE_ROW_GRAD(arity, row, name) \
  AULE_ROW_F(arity, row, name)          \
  m.impl(ROW(#name ".grad_input", (arity<row>::out)));
#define AULE_ROW_HAND(arity, row, name)
