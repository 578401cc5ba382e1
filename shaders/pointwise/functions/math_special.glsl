// Float32 functions that use those of math.glsl: error, gamma and Bessel functions, hypot and nextafter.
#ifndef AULE_MATH_SPECIAL_GLSL
#define AULE_MATH_SPECIAL_GLSL
#include "common/erfc.glsl"
// erf on |x| < 1; exp(x^2) erfc(x) on x >= 1.
float erf_small(float x) {
  float z = x * x;
  return x * ((((((7.853861353153693e-5 * z - 8.010193625184903e-4) * z + 5.188327685732524e-3) * z -
      2.685381193529856e-2) * z + 1.128358514861418e-1) * z - 3.761262582423300e-1) * z + 1.128379165726710);
}
float erfcx_large(float a) {
  float q = 1.0 / a, y = q * q, t;
  if (a < 2.0)
    t = (((((((2.326819970068386e-2 * y - 1.387039388740657e-1) * y + 3.687424674597105e-1) * y -
        5.824733027278666e-1) * y + 6.210004621745983e-1) * y - 4.944515323274145e-1) * y +
        3.404879937665872e-1) * y - 2.741127028184656e-1) * y + 5.638259427386472e-1;
  else
    t = ((((((-1.047766399936249e+1 * y + 1.297719955372516e+1) * y - 7.495518717768503) * y + 2.921019019210786) * y -
        1.015265279202700) * y + 4.218463358204948e-1) * y - 2.820767439740514e-1) * y + 5.641895067754075e-1;
  return q * t;
}
float exp_minus_square(float a) {  // e^(-a^2) without the rounding of a^2
  if (a > 10.1) return 0.0;
  float h = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
  precise float l = (a - h) * (a + h);
  return exp_(-h * h) * exp_(-l);
}
float erfc_(float x) {
  float a = abs(x);
  if (is_nan(x)) return x;
  if (a < 1.0) return 1.0 - erf_small(x);
  float y = a > 10.1 ? 0.0 : exp_minus_square(a) * erfcx_large(a);
  return x < 0.0 ? 2.0 - y : y;
}
float half_erfc(float x) {
  const float tail = 0.5 * erfc_of_positive(abs(x));
  return x < 0.0 ? 1.0 - tail : tail;
}
// From 1 on, 1 - 2^-p(|x|), where p is a fit of -log2 erfc: no branch, and to about an ulp. erf(4) rounds to 1.
float erf_(float x) {
  const bool is_small = (floatBitsToUint(x) & 0x7fffffffu) - 0x3f800000u > 0x40000000u;  // below 1, or NaN
  float a = min(abs(x), 4.0);
  float tail = ((((((-2.688748745e-4 * a + 4.252438899e-3) * a - 3.150514513e-2) * a + 1.487505287e-1) * a +
      9.206495881e-1) * a + 1.626045227) * a + 4.928860580e-4);
  return mix(with_sign(1.0 - exp2(-tail), x), erf_small(x), is_small);
}
float erfcx_(float x) {
  if (is_nan(x)) return x;
  float a = abs(x);
  if (a < 1.0) return exp_(a * a) * (1.0 - erf_small(x));
  float y = erfcx_large(a);
  return x > 0.0 ? y : 2.0 / exp_minus_square(a) - y;
}
float erfinv_(float x) {
  float a = abs(x), y;
  if (a == 1.0) return x * INF;
  if (!(a < 1.0)) return NAN;
  float w = -log_((1.0 - x) * (1.0 + x));
  if (w < 5.0) {
    w -= 2.5;
    y = 2.81022636e-08;
    y = 3.43273939e-07 + y * w;
    y = -3.5233877e-06 + y * w;
    y = -4.39150654e-06 + y * w;
    y = 0.00021858087 + y * w;
    y = -0.00125372503 + y * w;
    y = -0.00417768164 + y * w;
    y = 0.246640727 + y * w;
    y = 1.50140941 + y * w;
  } else {
    w = sqrt(w) - 3.0;
    y = -0.000200214257;
    y = 0.000100950558 + y * w;
    y = 0.00134934322 + y * w;
    y = -0.00367342844 + y * w;
    y = 0.00573950773 + y * w;
    y = -0.0076224613 + y * w;
    y = 0.00943887047 + y * w;
    y = 1.00167406 + y * w;
    y = 2.83297682 + y * w;
  }
  y *= x;
  if (a < 0.9) y -= (erf_(y) - x) / (1.128379167 * exp_(-y * y));
  return y;
}
float log_gamma(float x) {
  if (is_nan(x)) return x;
  if (is_inf(x)) return INF;
  if (x != 0.0 && abs(x) < 1e-10) return -log_(abs(x));  // where 1 / x may overflow
  float a = x, reflected = 0.0;
  bool reflect = x < 0.5;
  if (reflect) {
    if (x <= 0.0 && x == floor(x)) return INF;
    reflected = log_(PI / abs(sin_pi(x)));
    a = 1.0 - x;
  }
  // Shift to 8 and above, then Stirling's series.
  float product = 1.0;
  for (int i = 0; i < 8; ++i) {
    if (a < 8.0) {
      product *= a;
      a += 1.0;
    }
  }
  float r = 1.0 / a, z = r * r;
  float series = r * (8.333333333e-2 + z * (-2.777777778e-3 + z * 7.936507937e-4));
  float y = a > 1e18 ? a * (log_(a) - 1.0) : (a - 0.5) * log_(a) - a + 0.918938533204673 + series - log_(product);
  return reflect ? reflected - y : y;
}
float digamma_(float x) {
  if (is_nan(x) || x == INF) return x;
  if (x == 0.0) return with_sign(INF, -x);
  float y = 0.0;
  if (x < 0.0) {
    if (x == floor(x) || is_inf(x)) return NAN;
    y = -PI * cos_pi(x) / sin_pi(x);
    x = 1.0 - x;
  }
  for (int i = 0; i < 10; ++i) {
    if (x < 10.0) {
      y -= 1.0 / x;
      x += 1.0;
    }
  }
  float r = 1.0 / x, z = r * r;
  return y + log_(x) - 0.5 * r - z * (8.3333333e-2 - z * (8.3333333e-3 - z * 3.9682540e-3));
}
float trigamma_(float x) {
  float y = 0.0, sign = 1.0;
  if (x < 0.5) {
    float s = sin_pi(x);
    sign = -1.0;
    y = -PI * PI / (s * s);
    x = 1.0 - x;
  }
  for (int i = 0; i < 6; ++i) {
    y += 1.0 / (x * x);
    x += 1.0;
  }
  float r = 1.0 / x, z = r * r;
  y += (1.0 + 0.5 * r + z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0)))) * r;
  return sign * y;
}
// Modified Bessel functions times e^-|x| (Abramowitz and Stegun 9.8).
float i0e_(float x) {
  float a = abs(x);
  if (a < 3.75) {
    float t = (a / 3.75) * (a / 3.75);
    return exp_(-a) * (1.0 + t * (3.5156229 + t * (3.0899424 +
        t * (1.2067492 + t * (0.2659732 + t * (0.0360768 + t * 0.0045813))))));
  }
  float t = 3.75 / a;
  return inversesqrt(a) * (0.39894228 + t * (0.01328592 + t * (0.00225319 + t * (-0.00157565 + t * (0.00916281 +
         t * (-0.02057706 + t * (0.02635537 + t * (-0.01647633 + t * 0.00392377))))))));
}
float i1e_(float x) {
  float a = abs(x), y;
  if (a < 3.75) {
    float t = (a / 3.75) * (a / 3.75);
    y = a * exp_(-a) * (0.5 + t * (0.87890594 + t * (0.51498869 +
        t * (0.15084934 + t * (0.02658733 + t * (0.00301532 + t * 0.00032411))))));
  } else {
    float t = 3.75 / a;
    y = inversesqrt(a) * (0.39894228 + t * (-0.03988024 + t * (-0.00362018 + t * (0.00163801 + t * (-0.01031555 +
        t * (0.02282967 + t * (-0.02895312 + t * (0.01787654 + t * -0.00420059))))))));
  }
  return x < 0.0 ? -y : y;
}
float hypot_(float x, float y) {
  float a = abs(x), b = abs(y), m = max(a, b);
  if (is_inf(x) || is_inf(y)) return INF;
  if (is_nan(x) || is_nan(y)) return NAN;
  if (m == 0.0) return 0.0;
  float r = min(a, b) / m;
  return m * sqrt(1.0 + r * r);
}
// The bits of the number after x in the direction of y, neither of them NaN, in a format with this sign bit.
uint next_bits(uint x, uint y, uint sign) {
  const uint a = x & ~sign, b = y & ~sign;
  if (x == y || (a | b) == 0u) return y;
  if (a == 0u) return (y & sign) | 1u;
  return ((x ^ y) & sign) == 0u && b > a ? x + 1u : x - 1u;
}
float nextafter_(float x, float y) {
  if (is_nan(x) || is_nan(y)) return NAN;
  return uintBitsToFloat(next_bits(floatBitsToUint(x), floatBitsToUint(y), 0x80000000u));
}
#endif
