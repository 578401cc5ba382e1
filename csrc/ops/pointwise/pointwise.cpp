#include "ops/pointwise/pointwise.h"

#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/TensorIterator.h>
#include <c10/core/DefaultDtype.h>

#include "ops/copy/storage_types.h"
#include "ops/tensor/contiguous_out.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

// True if a kernel that computes on `common` may load `from`: its load then gives the same value as a cast.
bool loads_as(c10::ScalarType from, c10::ScalarType common) {
  if (from == common || from == at::kBool) return true;
  if (is_wide_unsigned(from)) return false;
  if (c10::isComplexType(from) && !c10::isComplexType(common)) return false;
  if (common == at::kComplexDouble) return true;
  if (common == at::kComplexFloat) return from != at::kDouble && from != at::kComplexDouble;
  if (common == at::kComplexHalf) return from == at::kHalf || from == at::kByte || from == at::kChar;
  if (common == at::kFloat || common == at::kDouble) return from != at::kDouble;
  const bool small = from == at::kByte || from == at::kChar;
  if (c10::isFloatingType(common)) return small;  // float16 and bfloat16
  if (from == at::kByte) return common != at::kChar;
  return common != at::kByte && c10::elementSize(from) <= c10::elementSize(common);
}

// Arithmetic is on values of the common dtype. An operand that loads as another value is converted first: int32 beside
// float16, 0-dim int32 beside uint8, 0-dim float64 beside float32.
const at::Tensor& settle(const at::Tensor& t, c10::ScalarType common, at::Tensor& storage) {
  if (t.device().is_cpu() || loads_as(t.scalar_type(), common)) return t;
  storage = t.to(common);
  return storage;
}

// Results of the common dtype reach a wider `out` through a tensor of the common dtype: 200 + 100 in uint8 is 44 in an
// int32 `out`, too.
template <class Compute>
bool through_common_dtype(at::Tensor& out, c10::ScalarType common, const Compute& compute) {
  if (!out.defined() || out.scalar_type() == common || loads_as(out.scalar_type(), common)) return false;
  const bool exact = common == at::kFloat || common == at::kDouble || common == at::kLong || common == at::kBool ||
                     common == at::kComplexFloat || common == at::kComplexDouble;
  if (exact || !c10::canCast(common, out.scalar_type())) return false;
  at::Tensor result;
  compute(result);
  hand_over(result, out);
  return true;
}

// Entries whose result is real for complex numbers.
constexpr bool is_real_of_complex(const Entry& entry) {
  return entry.arity == 1 && (entry.id == unary_entry::abs.id || entry.id == unary_entry::angle.id);
}
at::Tensor& real_of_complex(const Entry& entry, at::Tensor& out, const at::Tensor& a) {
  const c10::ScalarType real = c10::toRealValueType(a.scalar_type());
  TORCH_CHECK(!out.defined() || c10::canCast(real, out.scalar_type()), "result type ", real,
              " can't be cast to the desired output type ", out.defined() ? out.scalar_type() : real);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).add_output(out).add_const_input(a).check_all_same_dtype(false);
  if (!out.defined()) config.declare_static_dtype(real);
  at::TensorIterator iter = config.build();
  run_pointwise(entry, iter, a.scalar_type(), {});
  if (!out.defined()) out = iter.output();
  return out;
}

// Kernels load no unsigned integers of 16 bits and more: what their values are in arithmetic of floating point, and,
// for comparisons with others of the dtype or with numbers, in integers of more bits or of the same.
bool is_unloadable(const at::Tensor& t) { return is_wide_unsigned(t.scalar_type()) && !t.is_cpu(); }
at::Tensor loadable(const at::Tensor& t) {
  return is_unloadable(t) ? with_arithmetic(t, c10::get_default_dtype_as_scalartype() == at::kDouble) : t;
}
bool is_equality(const Entry& entry) {
  return entry.arity == 2 && (entry.id == binary_entry::eq.id || entry.id == binary_entry::ne.id);
}
at::Tensor comparable(const at::Tensor& t, const at::Tensor& other) {
  return t.scalar_type() == at::kUInt64 && other.scalar_type() == at::kUInt64 ? t.view(at::kLong) : loadable(t);
}

at::TensorIteratorConfig promoting(at::Tensor& out) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).add_output(out).allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
  config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
  return config;
}

}  // namespace

at::Tensor& unary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const Scalars& scalars) {
  return unary(entry, entry.rule, out, a, scalars);
}

at::Tensor& unary(const Entry& entry, Rule rule, at::Tensor& out, const at::Tensor& a, const Scalars& scalars) {
  if (a.is_complex() && is_real_of_complex(entry)) return real_of_complex(entry, out, a);
  if (rule == Rule::to_float && is_unloadable(a)) return unary(entry, rule, out, loadable(a), scalars);
  at::TensorIterator iter;
  switch (rule) {
    case Rule::same: iter.build_borrowing_unary_op(out, a); break;
    case Rule::to_float: iter.build_borrowing_unary_float_op(out, a); break;
    case Rule::to_bool: iter.build_borrowing_unary_force_boolean_op(out, a); break;
  }
  const c10::ScalarType common = rule == Rule::to_float ? iter.common_dtype() : a.scalar_type();
  run_pointwise(entry, iter, common, scalars);
  if (!out.defined()) out = iter.output();
  return out;
}

at::Tensor& binary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars) {
  return binary(entry, entry.rule, out, a, b, scalars);
}

at::Tensor& binary(const Entry& entry, Rule rule, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars) {
  if (is_unloadable(a) || is_unloadable(b)) {
    if (rule == Rule::to_float) return binary(entry, rule, out, loadable(a), loadable(b), scalars);
    const bool alike = a.scalar_type() == b.scalar_type() || b.unsafeGetTensorImpl()->is_wrapped_number();
    if (is_equality(entry) && alike && !(a.scalar_type() == at::kUInt64 && b.is_cpu()))
      return binary(entry, rule, out, comparable(a, b), comparable(b, a), scalars);
  }
  const bool mixed = a.scalar_type() != b.scalar_type();
  const c10::ScalarType winner = mixed ? at::result_type(a, b) : a.scalar_type();
  if (mixed && !(rule == Rule::to_float && c10::isIntegralType(winner, true))) {
    at::Tensor a_storage, b_storage;
    const at::Tensor &x = settle(a, winner, a_storage), &y = settle(b, winner, b_storage);
    if (!x.is_same(a) || !y.is_same(b)) return binary(entry, rule, out, x, y, scalars);
  }
  if (rule == Rule::same &&
      through_common_dtype(out, winner, [&](at::Tensor& t) { binary(entry, rule, t, a, b, scalars); }))
    return out;
  at::TensorIterator iter;
  switch (rule) {
    case Rule::same: iter.build_borrowing_binary_op(out, a, b); break;
    case Rule::to_float: iter.build_borrowing_binary_float_op(out, a, b); break;
    case Rule::to_bool: iter.build_borrowing_comparison_op(out, a, b); break;
  }
  run_pointwise(entry, iter, iter.common_dtype(), scalars);
  if (!out.defined()) out = iter.output();
  return out;
}

at::Tensor& ternary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const Scalars& scalars) {
  at::Tensor a_storage, b_storage, c_storage;
  const at::Tensor *x = &a, *y = &b, *z = &c;
  c10::ScalarType winner = a.scalar_type();
  if (winner != b.scalar_type() || winner != c.scalar_type()) {
    at::native::ResultTypeState state = at::native::update_result_type_state(a, {});
    state = at::native::update_result_type_state(c, at::native::update_result_type_state(b, state));
    winner = at::native::result_type(state);
    if (entry.rule != Rule::to_float || !c10::isIntegralType(winner, true)) {
      x = &settle(a, winner, a_storage);
      y = &settle(b, winner, b_storage);
      z = &settle(c, winner, c_storage);
    }
  }
  if (entry.rule == Rule::same &&
      through_common_dtype(out, winner, [&](at::Tensor& t) { ternary(entry, t, *x, *y, *z, scalars); }))
    return out;
  at::TensorIteratorConfig config = promoting(out);
  config.add_const_input(*x).add_const_input(*y).add_const_input(*z);
  if (entry.rule == Rule::to_float) config.promote_integer_inputs_to_float(true);
  at::TensorIterator iter = config.build();
  run_pointwise(entry, iter, iter.common_dtype(), scalars);
  if (!out.defined()) out = iter.output();
  return out;
}

namespace {

// where() of complex128 on a device without float64: the parts are float64, which is chosen by integer code.
at::Tensor& where_by_parts(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other,
                           at::Tensor& out) {
  const auto parts = [&](const at::Tensor& t) {
    return at::view_as_real(t.to(condition.options().dtype(at::kComplexDouble)));
  };
  const at::Tensor chosen = at::where(condition.unsqueeze(-1), parts(self), parts(other));
  const at::Tensor result = at::view_as_complex(chosen.contiguous());
  return out.defined() ? hand_over(result, out) : out = result;
}

}  // namespace

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where: expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  const c10::ScalarType common = at::result_type(self, other);
  TORCH_CHECK(!out.defined() || out.scalar_type() == common, "where: expected out to have dtype ", common, ", but got ",
              out.defined() ? out.scalar_type() : common);
  const at::Tensor& ours = out.defined() ? out : !condition.is_cpu() ? condition : self.is_cpu() ? other : self;
  // TensorIterator takes one number of the host.
  const auto is_number = [](const at::Tensor& t) { return t.is_cpu() && t.dim() == 0; };
  if (is_number(condition) + is_number(self) + is_number(other) > 1) {
    const auto moved = [&](const at::Tensor& t) { return is_number(t) ? t.to(ours.options().dtype(common)) : t; };
    return where_out(is_number(condition) ? condition.to(ours.device()) : condition, moved(self), other, out);
  }
  if (common == at::kComplexDouble && !profile_of(ours).float64)
    return where_by_parts(condition.to(ours.device()), self, other, out);
  at::Tensor a_storage, b_storage;
  const at::Tensor& a = settle(self, common, a_storage);
  const at::Tensor& b = settle(other, common, b_storage);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).add_output(out).allow_cpu_scalars(true).check_all_same_dtype(false);
  config.declare_static_dtype(common).add_const_input(condition).add_const_input(a).add_const_input(b);
  at::TensorIterator iter = config.build();
  run_pointwise(ternary_entry::where, iter, common, {});
  if (!out.defined()) out = iter.output();
  return out;
}

}  // namespace aule::ops
