// Numbers of 8 bits to floats and back, one invocation each, both dense: float8 of FORMAT is storage only.
//   e4m3fn, e5m2: IEEE's, but for e4m3fn's largest exponent, which has numbers and one NaN;  e8m0fnu: a power of two
//   without a sign;  fnuz: no infinities, no -0, whose code is the NaN
// Rounds to nearest even (e8m0fnu too, by its exponent). Beyond the largest number: SATURATES, e4m3fn gives it; else
// infinity, or NaN where there is none.
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;  // of the floats
layout(constant_id = 1) const int FORMAT = 0;
layout(constant_id = 2) const bool DECODES = true;
layout(constant_id = 3) const bool SATURATES = true;
struct Params {
  uint64_t floats, bytes;
  uint64_t n;
};
#include "common/params.glsl"

const int E4M3FN = 0, E5M2 = 1, E4M3FNUZ = 2, E5M2FNUZ = 3, E8M0FNU = 4;
const bool FNUZ = FORMAT == E4M3FNUZ || FORMAT == E5M2FNUZ;
const uint MANTISSA = FORMAT == E4M3FN || FORMAT == E4M3FNUZ ? 3 : 2;
const uint BIAS = (MANTISSA == 3 ? 7 : 15) + (FNUZ ? 1 : 0);
const uint SHIFT = 23 - MANTISSA;
// The code of the largest number.
const uint LARGEST = FORMAT == E4M3FN ? 0x7e : FORMAT == E5M2 ? 0x7b : 0x7f;

float decode(uint code) {
  if (FORMAT == E8M0FNU) return code == 255u ? AULE_NAN : uintBitsToFloat(code == 0u ? 0x00400000u : code << 23);
  const uint a = code & 0x7fu, sign = (code & 0x80u) << 24;
  if (FNUZ ? code == 0x80u : FORMAT == E4M3FN ? a == 0x7fu : a > 0x7cu) return uintBitsToFloat(0x7fc00000u | sign);
  if (FORMAT == E5M2 && a == 0x7cu) return uintBitsToFloat(0x7f800000u | sign);
  const float step_ = uintBitsToFloat((128u - BIAS - MANTISSA) << 23);  // of subnormal numbers
  const uint normal = (a << SHIFT) + ((127u - BIAS) << 23);
  return uintBitsToFloat((a >> MANTISSA == 0u ? floatBitsToUint(float(a) * step_) : normal) | sign);
}

uint encode(float x) {
  const uint u = floatBitsToUint(x), a = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
  if (FORMAT == E8M0FNU) {
    const uint exponent = a >> 23, rest = a & 0x7fffffu;
    const bool up = rest > 0x400000u || (rest == 0x400000u && exponent > 0u);
    return exponent == 255u ? 255u : exponent + (up ? 1u : 0u);
  }
  if (a > 0x7f800000u) return FNUZ ? 0x80u : sign | 0x7fu;
  const uint cut = min(a, 0x7f000000u);  // so that the sum below does not wrap
  const uint normal = ((cut + ((1u << (SHIFT - 1)) - 1u) + bitfieldExtract(cut, int(SHIFT), 1)) >> SHIFT) -
      ((127u - BIAS) << MANTISSA);
  const uint magic = (128u - BIAS - MANTISSA + 23u) << 23;  // its last place is the step of subnormal numbers
  const bool is_normal = a >= (128u - BIAS) << 23;
  const uint code = is_normal ? normal : floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(magic)) - magic;
  if (code <= LARGEST) return FNUZ && code == 0u ? 0u : sign | code;
  if (FNUZ) return 0x80u;
  return sign | (FORMAT == E5M2 ? 0x7cu : SATURATES ? LARGEST : 0x7fu);
}

void main() {
  const uint64_t i = linear_invocation();
  if (i >= p.n) return;
  if (DECODES) store_float(p.floats, i, DTYPE, decode(uint(U8Ref(p.bytes + i).v)));
  else U8Ref(p.bytes + i).v = uint8_t(encode(load_float(p.floats, i, DTYPE)));
}
