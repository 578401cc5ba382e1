// Binary and ternary rows, and the arithmetic with arguments of its own.
#include "ops/pointwise_binary.h"
#include "aten/pointwise_register.h"

#define BINARY_FLOAT(id, name, forms, ...) AULE_ROW_##forms(Binary, ops::binary_row::name, name)
#define BINARY_REAL BINARY_FLOAT
#define BINARY_ANY BINARY_FLOAT
#define BINARY_INT BINARY_FLOAT
#define BINARY_TEST BINARY_FLOAT

namespace aule::aten {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#include "pointwise/binary_ops.def"

  m.impl("add.Tensor", GUARDED(ops::add));
  m.impl("add_.Tensor", GUARDED(ops::add_));
  m.impl("add.out", GUARDED(ops::add_out));
  m.impl("sub.Tensor", GUARDED(ops::sub));
  m.impl("sub_.Tensor", GUARDED(ops::sub_));
  m.impl("sub.out", GUARDED(ops::sub_out));
  m.impl("rsub.Tensor", GUARDED(ops::rsub));
  m.impl("mul.Tensor", GUARDED(Binary<ops::binary_row::mul>::functional));
  m.impl("mul_.Tensor", GUARDED(Binary<ops::binary_row::mul>::in_place));
  m.impl("mul.out", GUARDED(Binary<ops::binary_row::mul>::out));
  m.impl("div.Tensor", GUARDED(Binary<ops::binary_row::div>::functional));
  m.impl("div_.Tensor", GUARDED(Binary<ops::binary_row::div>::in_place));
  m.impl("div.out", GUARDED(Binary<ops::binary_row::div>::out));
  m.impl("div.Tensor_mode", GUARDED(ops::div_mode));
  m.impl("div_.Tensor_mode", GUARDED(ops::div_mode_));
  m.impl("div.out_mode", GUARDED(ops::div_mode_out));
  m.impl("floor_divide", GUARDED(Binary<ops::binary_row::div_floor>::functional));
  m.impl("floor_divide_.Tensor", GUARDED(Binary<ops::binary_row::div_floor>::in_place));
  m.impl("floor_divide.out", GUARDED(Binary<ops::binary_row::div_floor>::out));
  m.impl("remainder.Scalar_Tensor", GUARDED(ops::remainder_scalar_tensor));
  m.impl("copysign.Tensor", GUARDED(Binary<ops::binary_row::copysign>::functional));
  m.impl("copysign_.Tensor", GUARDED(Binary<ops::binary_row::copysign>::in_place));
  m.impl("copysign.out", GUARDED(Binary<ops::binary_row::copysign>::out));
  m.impl("xlogy.Tensor", GUARDED(Binary<ops::binary_row::xlogy>::functional));
  m.impl("xlogy_.Tensor", GUARDED(Binary<ops::binary_row::xlogy>::in_place));
  m.impl("xlogy.OutTensor", GUARDED(Binary<ops::binary_row::xlogy>::out));
  m.impl("__lshift__.Tensor", GUARDED(Binary<ops::binary_row::bitwise_left_shift>::functional));
  m.impl("__lshift__.Scalar", GUARDED(Binary<ops::binary_row::bitwise_left_shift>::scalar));
  m.impl("__ilshift__.Tensor", GUARDED(Binary<ops::binary_row::bitwise_left_shift>::in_place));
  m.impl("__ilshift__.Scalar", GUARDED(Binary<ops::binary_row::bitwise_left_shift>::scalar_in_place));
  m.impl("__rshift__.Tensor", GUARDED(Binary<ops::binary_row::bitwise_right_shift>::functional));
  m.impl("__rshift__.Scalar", GUARDED(Binary<ops::binary_row::bitwise_right_shift>::scalar));
  m.impl("__irshift__.Tensor", GUARDED(Binary<ops::binary_row::bitwise_right_shift>::in_place));
  m.impl("__irshift__.Scalar", GUARDED(Binary<ops::binary_row::bitwise_right_shift>::scalar_in_place));

  m.impl("pow.Tensor_Tensor", GUARDED(ops::pow));
  m.impl("pow.Tensor_Tensor_out", GUARDED(ops::pow_out));
  m.impl("pow.Tensor_Scalar", GUARDED(ops::pow_tensor_scalar));
  m.impl("pow.Tensor_Scalar_out", GUARDED(ops::pow_tensor_scalar_out));
  m.impl("pow.Scalar_out", GUARDED(ops::pow_scalar_out));

  m.impl("lerp.Scalar", GUARDED(ops::lerp_scalar));
  m.impl("lerp_.Scalar", GUARDED(ops::lerp_scalar_));
  m.impl("lerp.Scalar_out", GUARDED(ops::lerp_scalar_out));
  m.impl("lerp.Tensor_out", GUARDED(ops::lerp_tensor_out));
  m.impl("addcmul_", GUARDED(ops::addcmul_));
  m.impl("addcmul.out", GUARDED(ops::addcmul_out));
  m.impl("addcdiv_", GUARDED(ops::addcdiv_));
  m.impl("addcdiv.out", GUARDED(ops::addcdiv_out));

  m.impl("where.self", GUARDED(ops::where));
  m.impl("where.self_out", GUARDED(ops::where_out));
  m.impl("masked_fill_.Scalar", GUARDED(ops::masked_fill__scalar));
  m.impl("masked_fill_.Tensor", GUARDED(ops::masked_fill__tensor));
}

}  // namespace aule::aten
