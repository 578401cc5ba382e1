// One elementwise operation over many dense tensors of one dtype at once (torch._foreach_*):
//   dst = OP(x, y, z, scalar of the tensor), computed in float32 like the kernels of single tensors.
// Memory bound. Neighbouring invocations take neighbouring elements.
#pragma aule params ring
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/multi_tensor.glsl"

struct Params {
  uint64_t dst[TENSORS];
  uint64_t x[TENSORS];
  uint64_t y[TENSORS];  // y and z are 0 if OP does not take them
  uint64_t z[TENSORS];
  float scalar[TENSORS];
  uint elems[TENSORS];
  uint first_group[TENSORS];
  uint tensors;
};
#include "common/params.glsl"

layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int OP = 0;
layout(constant_id = 2) const int Y_DTYPE = 0;  // mul_tensor: y is one number of this dtype

#define FOREACH_OP(code, name) const int OP_##name = code;
#include "optim/foreach_ops.def"
const bool kTakesY = OP >= OP_add && OP <= OP_lerp || OP == OP_maximum || OP == OP_minimum;
const bool kTakesZ = OP == OP_addcmul || OP == OP_addcdiv;

// A NaN wins.
float largest(float x, float y) { return is_nan(x) || x > y ? x : y; }
float smallest(float x, float y) { return is_nan(x) || x < y ? x : y; }

void main() {
  AULE_FIND_TENSOR
  float s = p.scalar[t];
  uint64_t at_x = p.x[t], at_y = p.y[t], at_z = p.z[t], at_dst = p.dst[t];
  float number = 0.0;
  if (OP == OP_mul_tensor) number = load_float(at_y, uint64_t(0), Y_DTYPE);
  [[unroll]] for (uint step = 0u; step < GROUP_ELEMS / LOCAL; ++step) {
    uint k = begin + step * LOCAL;
    if (k >= end) break;
    uint64_t i = uint64_t(k);
    float x = load_float(at_x, i, DTYPE), y = 0.0, z = 0.0;
    if (kTakesY) y = load_float(at_y, i, DTYPE);
    if (kTakesZ) z = load_float(at_z, i, DTYPE);
    if (OP == OP_add_scalar) x += s;
    else if (OP == OP_mul_scalar) x *= s;
    else if (OP == OP_div_scalar) x /= s;
    else if (OP == OP_add) x += s * y;
    else if (OP == OP_mul) x *= y;
    else if (OP == OP_mul_tensor) x *= number;
    else if (OP == OP_div) x /= y;
    else if (OP == OP_addcmul) x += s * y * z;
    else if (OP == OP_addcdiv) x += s * (y / z);
    else if (OP == OP_lerp) x = abs(s) < 0.5 ? x + s * (y - x) : y - (y - x) * (1.0 - s);
    else if (OP == OP_sqrt) x = sqrt(x);
    else if (OP == OP_neg) x = -x;
    else if (OP == OP_abs) x = abs(x);
    else if (OP == OP_maximum) x = largest(x, y);
    else if (OP == OP_minimum) x = smallest(x, y);
    else if (OP == OP_maximum_scalar) x = largest(x, s);
    else if (OP == OP_minimum_scalar) x = smallest(x, s);
    else x = 0.0;
    store_float(at_dst, i, DTYPE, x);
  }
}
