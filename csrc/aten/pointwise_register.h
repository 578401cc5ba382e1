// Templates that make typed functions of the ATen signatures from table entries, without boxing and without a lookup.
#pragma once
#include <ATen/ScalarOps.h>

#include "aten/register.h"
#include "ops/pointwise/pointwise.h"

namespace aule::aten {

template <const ops::Entry& entry>
struct Unary {
  static at::Tensor functional(const at::Tensor& a) {
    at::Tensor out;
    return ops::unary(entry, out, a);
  }
  static at::Tensor& in_place(at::Tensor& a) {
    if constexpr (entry.id == ops::unary_entry::abs.id)
      TORCH_CHECK(!a.is_complex(), "In-place abs is not supported for complex tensors.");
    return ops::unary(entry, a, a);
  }
  static at::Tensor& out(const at::Tensor& a, at::Tensor& out) { return ops::unary(entry, out, a); }
};

template <const ops::Entry& entry>
struct Binary {
  static at::Tensor functional(const at::Tensor& a, const at::Tensor& b) {
    at::Tensor out;
    return ops::binary(entry, out, a, b);
  }
  static at::Tensor& in_place(at::Tensor& a, const at::Tensor& b) { return ops::binary(entry, a, a, b); }
  static at::Tensor& out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
    return ops::binary(entry, out, a, b);
  }

  static at::Tensor scalar(const at::Tensor& a, const at::Scalar& b) {
    at::Tensor out;
    return ops::binary(entry, out, a, at::native::wrapped_scalar_tensor(b));
  }
  static at::Tensor& scalar_in_place(at::Tensor& a, const at::Scalar& b) {
    return ops::binary(entry, a, a, at::native::wrapped_scalar_tensor(b));
  }
  static at::Tensor& scalar_out(const at::Tensor& a, const at::Scalar& b, at::Tensor& out) {
    return ops::binary(entry, out, a, at::native::wrapped_scalar_tensor(b));
  }
};

}  // namespace aule::aten

#define AULE_ENTRY_F(arity, entry, name) m.impl(ROW(#name, (arity<entry>::functional)));
#define AULE_ENTRY_O(arity, entry, name) m.impl(ROW(#name ".out", (arity<entry>::out)));
#define AULE_ENTRY_FO(arity, entry, name) AULE_ENTRY_F(arity, entry, name) AULE_ENTRY_O(arity, entry, name)
#define AULE_ENTRY_FIO(arity, entry, name) \
  AULE_ENTRY_FO(arity, entry, name) m.impl(ROW(#name "_", (arity<entry>::in_place)));
#define AULE_ENTRY_TIO(arity, entry, name)                  \
  m.impl(ROW(#name ".Tensor", (arity<entry>::functional))); \
  m.impl(ROW(#name "_.Tensor", (arity<entry>::in_place)));  \
  m.impl(ROW(#name ".Tensor_out", (arity<entry>::out)));
#define AULE_ENTRY_SIO(arity, entry, name)                        \
  AULE_ENTRY_TIO(arity, entry, name)                              \
  m.impl(ROW(#name ".Scalar", (arity<entry>::scalar)));           \
  m.impl(ROW(#name "_.Scalar", (arity<entry>::scalar_in_place))); \
  m.impl(ROW(#name ".Scalar_out", (arity<entry>::scalar_out)));
#define AULE_ENTRY_GRAD(arity, entry, name) \
  AULE_ENTRY_F(arity, entry, name)          \
  m.impl(ROW(#name ".grad_input", (arity<entry>::out)));
#define AULE_ENTRY_HAND(arity, entry, name)
