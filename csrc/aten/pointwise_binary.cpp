// Binary and ternary table entries, and the arithmetic with arguments of its own.
#include "aten/pointwise_register.h"
#include "ops/pointwise/binary.h"

#define BINARY_REAL(id, name, forms, ...) AULE_ENTRY_##forms(Binary, ops::binary_entry::name, name)
#define BINARY_ANY BINARY_REAL
#define BINARY_INT BINARY_REAL
#define BINARY_TEST BINARY_REAL
#define BINARY_SPECIAL BINARY_REAL

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/binary_ops.def"

  m.impl(ROW("add.Tensor", ops::add));
  m.impl(ROW("add_.Tensor", ops::add_));
  m.impl(ROW("add.out", ops::add_out));
  m.impl(ROW("sub.Tensor", ops::sub));
  m.impl(ROW("sub_.Tensor", ops::sub_));
  m.impl(ROW("sub.out", ops::sub_out));
  m.impl(ROW("rsub.Tensor", ops::rsub));
  m.impl(ROW("mul.Tensor", Binary<ops::binary_entry::mul>::functional));
  m.impl(ROW("mul_.Tensor", Binary<ops::binary_entry::mul>::in_place));
  m.impl(ROW("mul.out", Binary<ops::binary_entry::mul>::out));
  m.impl(ROW("div.Tensor", Binary<ops::binary_entry::div>::functional));
  m.impl(ROW("div_.Tensor", Binary<ops::binary_entry::div>::in_place));
  m.impl(ROW("div.out", Binary<ops::binary_entry::div>::out));
  m.impl(ROW("div.Tensor_mode", ops::div_mode));
  m.impl(ROW("div_.Tensor_mode", ops::div_mode_));
  m.impl(ROW("div.out_mode", ops::div_mode_out));
  m.impl(ROW("floor_divide", Binary<ops::binary_entry::div_floor>::functional));
  m.impl(ROW("floor_divide_.Tensor", Binary<ops::binary_entry::div_floor>::in_place));
  m.impl(ROW("floor_divide.out", Binary<ops::binary_entry::div_floor>::out));
  m.impl(ROW("remainder.Scalar_Tensor", ops::remainder_scalar_tensor));
  m.impl(ROW("nextafter", ops::nextafter));
  m.impl(ROW("nextafter_", ops::nextafter_));
  m.impl(ROW("nextafter.out", ops::nextafter_out));
  m.impl(ROW("copysign.Tensor", Binary<ops::binary_entry::copysign>::functional));
  m.impl(ROW("copysign_.Tensor", Binary<ops::binary_entry::copysign>::in_place));
  m.impl(ROW("copysign.out", Binary<ops::binary_entry::copysign>::out));
  m.impl(ROW("xlogy.Tensor", Binary<ops::binary_entry::xlogy>::functional));
  m.impl(ROW("xlogy_.Tensor", Binary<ops::binary_entry::xlogy>::in_place));
  m.impl(ROW("xlogy.OutTensor", Binary<ops::binary_entry::xlogy>::out));
  m.impl(ROW("__lshift__.Tensor", Binary<ops::binary_entry::bitwise_left_shift>::functional));
  m.impl(ROW("__lshift__.Scalar", Binary<ops::binary_entry::bitwise_left_shift>::scalar));
  m.impl(ROW("__ilshift__.Tensor", Binary<ops::binary_entry::bitwise_left_shift>::in_place));
  m.impl(ROW("__ilshift__.Scalar", Binary<ops::binary_entry::bitwise_left_shift>::scalar_in_place));
  m.impl(ROW("__rshift__.Tensor", Binary<ops::binary_entry::bitwise_right_shift>::functional));
  m.impl(ROW("__rshift__.Scalar", Binary<ops::binary_entry::bitwise_right_shift>::scalar));
  m.impl(ROW("__irshift__.Tensor", Binary<ops::binary_entry::bitwise_right_shift>::in_place));
  m.impl(ROW("__irshift__.Scalar", Binary<ops::binary_entry::bitwise_right_shift>::scalar_in_place));

  m.impl(ROW("pow.Tensor_Tensor", ops::pow));
  m.impl(ROW("pow.Tensor_Tensor_out", ops::pow_out));
  m.impl(ROW("pow.Tensor_Scalar", ops::pow_tensor_scalar));
  m.impl(ROW("pow.Tensor_Scalar_out", ops::pow_tensor_scalar_out));
  m.impl(ROW("pow.Scalar_out", ops::pow_scalar_out));
  m.impl(ROW("ldexp.Tensor", ops::ldexp));
  m.impl(ROW("ldexp_", ops::ldexp_));
  m.impl(ROW("ldexp.out", ops::ldexp_out));

  m.impl(ROW("lerp.Scalar", ops::lerp_scalar));
  m.impl(ROW("lerp_.Scalar", ops::lerp_scalar_));
  m.impl(ROW("lerp.Scalar_out", ops::lerp_scalar_out));
  m.impl(ROW("lerp.Tensor_out", ops::lerp_tensor_out));
  m.impl(ROW("addcmul_", ops::addcmul_));
  m.impl(ROW("addcmul.out", ops::addcmul_out));
  m.impl(ROW("addcdiv_", ops::addcdiv_));
  m.impl(ROW("addcdiv.out", ops::addcdiv_out));

  m.impl(ROW("where.self", ops::where));
  m.impl(ROW("where.self_out", ops::where_out));
  m.impl(ROW("masked_fill_.Scalar", ops::masked_fill__scalar));
  m.impl(ROW("masked_fill_.Tensor", ops::masked_fill__tensor));
}

}  // namespace aule::aten
