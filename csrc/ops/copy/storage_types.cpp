#include "ops/copy/storage_types.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <c10/util/Float8_e4m3fn.h>

#include <limits>

#include "kernels_copy.gen.h"
#include "ops/copy/kernels.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr double kTwo63 = 9223372036854775808.0;

// FORMAT of float8.comp; -1: none.
int format_of(c10::ScalarType t) {
  switch (t) {
    case at::kFloat8_e4m3fn: return 0;
    case at::kFloat8_e5m2: return 1;
    case at::kFloat8_e4m3fnuz: return 2;
    case at::kFloat8_e5m2fnuz: return 3;
    case at::kFloat8_e8m0fnu: return 4;
    default: return -1;
  }
}

// Both dense; one of them float8, the other float32.
void launch_float8(const at::Tensor& floats, const at::Tensor& bytes, bool decodes) {
  if (floats.numel() == 0) return;
  // Numbers beyond the largest become this; before PyTorch 2.13 a NaN.
  static const bool saturates = c10::Float8_e4m3fn(1e6f).x == 0x7e;
  TensorArgs args;
  Float8Params p{};
  p.floats = decodes ? args.write(floats) : args.read(floats);
  p.bytes = decodes ? args.read(bytes) : args.write(bytes);
  p.n = static_cast<uint64_t>(floats.numel());
  launch(current(floats), kernel::float8(),
         {.dtype = dtype_of(floats, "copy_"),
          .format = format_of(bytes.scalar_type()),
          .decodes = decodes,
          .saturates = saturates},
         p, args, linear_grid(ceil_div(p.n, Float8Params::kLocal)));
}

at::Tensor converted(const at::Tensor& t, c10::ScalarType type) {
  if (t.scalar_type() == type) return t;
  const at::Tensor to = at::empty(t.sizes(), t.options().dtype(type));
  copy_strided(to, t);
  return to;
}

c10::ScalarType signed_of(c10::ScalarType t) {
  return t == at::kUInt16 ? at::kShort : t == at::kUInt32 ? at::kInt : at::kLong;
}

// uint64 as floating point, rounded once: of the upper half twice the half of it, whose last bit stands for two.
at::Tensor floats_of(const at::Tensor& bits, c10::ScalarType type) {
  const at::Tensor upper = bits.lt(0);
  const at::Tensor half =
      bits.bitwise_right_shift(1).bitwise_and_(std::numeric_limits<int64_t>::max()).bitwise_or_(bits.bitwise_and(1));
  const at::Tensor x = converted(at::where(upper, half, bits), type);
  return at::where(upper, x.mul(2), x);
}

// The bits of values, as a signed integer type.
at::Tensor bits_of(const at::Tensor& values, c10::ScalarType type) {
  if (!values.is_floating_point()) return converted(values, type);
  const at::Tensor upper = values.ge(kTwo63);
  const at::Tensor whole = converted(at::where(upper, values.sub(kTwo63), values), at::kLong);
  return converted(at::where(upper, whole.bitwise_xor(std::numeric_limits<int64_t>::min()), whole), type);
}

}  // namespace

bool is_float8(c10::ScalarType t) { return format_of(t) >= 0; }
bool is_wide_unsigned(c10::ScalarType t) { return t == at::kUInt16 || t == at::kUInt32 || t == at::kUInt64; }

at::Tensor with_arithmetic(const at::Tensor& t, bool in_double) {
  if (is_float8(t.scalar_type())) {
    const at::Tensor floats = at::empty(t.sizes(), t.options().dtype(at::kFloat));
    launch_float8(floats, t.contiguous(), /*decodes=*/true);
    return floats;
  }
  const at::Tensor bits = t.view(signed_of(t.scalar_type()));
  switch (t.scalar_type()) {
    case at::kUInt16: return converted(bits, at::kInt).bitwise_and(0xffff);
    case at::kUInt32: return converted(bits, at::kLong).bitwise_and(0xffffffff);
    default: return floats_of(bits, in_double ? at::kDouble : at::kFloat);
  }
}

void convert_storage(const at::Tensor& dst, const at::Tensor& src) {
  const c10::ScalarType to = dst.scalar_type(), from = src.scalar_type();
  at::Tensor values = src;
  if (from == at::kUInt64 && c10::isIntegralType(to, /*includeBool=*/true))
    values = src.view(at::kLong);
  else if (is_storage_only(from))
    values = with_arithmetic(src, c10::toRealValueType(to) == at::kDouble);
  if (is_float8(to)) {
    const at::Tensor bytes = at::empty(dst.sizes(), dst.options());
    launch_float8(converted(values, at::kFloat).contiguous(), bytes, /*decodes=*/false);
    copy_strided(dst, bytes);
  } else if (is_wide_unsigned(to)) {
    if (values.is_complex()) values = converted(values, c10::toRealValueType(values.scalar_type()));
    copy_strided(dst.view(signed_of(to)), bits_of(values, signed_of(to)));
  } else {
    copy_strided(dst, values);
  }
}

}  // namespace aule::ops
