// float8, five formats of 8 bits, to float and back:
//   e4m3fn, e5m2: IEEE's, but for e4m3fn's largest exponent, which has numbers and one NaN;  e8m0fnu: a power of two
//   without a sign;  fnuz: no infinities, no -0, whose code is the NaN
// Rounds to nearest even (e8m0fnu too, by its exponent). Beyond the largest number: with `saturates` e4m3fn gives it;
// else infinity, or NaN where there is none. `format` and `saturates` are constants where it is called.
#ifndef AULE_FLOAT8_GLSL
#define AULE_FLOAT8_GLSL

const int E4M3FN = 0, E5M2 = 1, E4M3FNUZ = 2, E5M2FNUZ = 3, E8M0FNU = 4;

bool float8_is_fnuz(int format) { return format == E4M3FNUZ || format == E5M2FNUZ; }
uint float8_mantissa(int format) { return format == E4M3FN || format == E4M3FNUZ ? 3 : 2; }
uint float8_bias(int format) { return (float8_mantissa(format) == 3 ? 7 : 15) + (float8_is_fnuz(format) ? 1 : 0); }

float decode_float8(uint code, int format) {
  const uint mantissa = float8_mantissa(format), bias = float8_bias(format), shift = 23 - mantissa;
  if (format == E8M0FNU) return uintBitsToFloat(code == 255u ? 0x7fc00000u : code == 0u ? 0x00400000u : code << 23);
  const uint a = code & 0x7fu, sign = (code & 0x80u) << 24;
  const bool is_ieee_nan = format == E4M3FN ? a == 0x7fu : a > 0x7cu;
  if (float8_is_fnuz(format) ? code == 0x80u : is_ieee_nan) return uintBitsToFloat(0x7fc00000u | sign);
  if (format == E5M2 && a == 0x7cu) return uintBitsToFloat(0x7f800000u | sign);
  const float step_ = uintBitsToFloat((128u - bias - mantissa) << 23);  // of subnormal numbers
  const uint normal = (a << shift) + ((127u - bias) << 23);
  return uintBitsToFloat((a >> mantissa == 0u ? floatBitsToUint(float(a) * step_) : normal) | sign);
}

uint encode_float8(float x, int format, bool saturates) {
  const uint mantissa = float8_mantissa(format), bias = float8_bias(format), shift = 23 - mantissa;
  const bool fnuz = float8_is_fnuz(format);
  // The code of the largest number.
  const uint largest = format == E4M3FN ? 0x7e : format == E5M2 ? 0x7b : 0x7f;
  const uint u = floatBitsToUint(x), a = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
  if (format == E8M0FNU) {
    const uint exponent = a >> 23, rest = a & 0x7fffffu;
    const bool up = rest > 0x400000u || (rest == 0x400000u && exponent > 0u);
    return exponent == 255u ? 255u : exponent + (up ? 1u : 0u);
  }
  if (a > 0x7f800000u) return fnuz ? 0x80u : sign | 0x7fu;
  const uint cut = min(a, 0x7f000000u);  // so that the sum below does not wrap
  const uint normal = ((cut + ((1u << (shift - 1)) - 1u) + bitfieldExtract(cut, int(shift), 1)) >> shift) -
      ((127u - bias) << mantissa);
  const uint magic = (128u - bias - mantissa + 23u) << 23;  // its last place is the step of subnormal numbers
  const bool is_normal = a >= (128u - bias) << 23;
  const uint code = is_normal ? normal : floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(magic)) - magic;
  if (code <= largest) return fnuz && code == 0u ? 0u : sign | code;
  if (fnuz) return 0x80u;
  return sign | (format == E5M2 ? 0x7cu : saturates ? largest : 0x7fu);
}
#endif
