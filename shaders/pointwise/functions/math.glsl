// Float32 elementary functions to about 2 ulp. GLSL leaves their precision to the driver (Vulkan allows 2^-11 for
// sin, asin and atan, and lavapipe and NVIDIA use some of it), so the entries use these instead. Polynomials are the
// classic minimax fits for single precision. Reductions are marked precise so that no compiler folds them.
#ifndef AULE_MATH_GLSL
#define AULE_MATH_GLSL
#define INF uintBitsToFloat(0x7f800000u)
#define NAN uintBitsToFloat(0x7fc00000u)
const float PI = 3.14159265358979, LN2 = 0.693147180559945;

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool is_zero(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0u; }  // common/float_bits.glsl says why
bool sign_bit(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }
float with_sign(float x, float s) {
  return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | (floatBitsToUint(s) & 0x80000000u));
}
float exp2_int(int k) { return uintBitsToFloat(uint(k + 127) << 23); }

// e^r - 1 for |r| <= ln2 / 2.
float expm1_small(float r) {
  return r + r * r * (5.0000001201e-1 + r * (1.6666665459e-1 + r * (4.1665795894e-2 + r * (8.3334519073e-3 +
             r * (1.3981999507e-3 + r * 1.9875691500e-4)))));
}
float exp_(float x) {
  if (is_nan(x)) return x;
  if (x > 88.72284) return INF;
  if (x < -103.97208) return 0.0;
  float k = roundEven(x * 1.44269504088896);
  precise float r = x - k * 0.693359375;
  r = r + k * 2.12194440e-4;
  int n = int(k), half_n = n >> 1;  // in two steps: 2^128 and subnormal results
  return (1.0 + expm1_small(r)) * exp2_int(half_n) * exp2_int(n - half_n);
}
float expm1_(float x) {
  if (is_nan(x)) return x;
  if (x > 20.0) return exp_(x);
  if (x < -18.0) return -1.0;
  float k = roundEven(x * 1.44269504088896);
  precise float r = x - k * 0.693359375;
  r = r + k * 2.12194440e-4;
  if (k == 0.0) return with_sign(expm1_small(r), x);  // -0 stays -0
  float s = exp2_int(int(k));
  precise float y = s * expm1_small(r) + (s - 1.0);
  return y;
}
float exp2_(float x) {
  if (is_nan(x)) return x;
  if (x >= 128.0) return INF;
  if (x < -150.0) return 0.0;
  float k = roundEven(x);
  int n = int(k), half_n = n >> 1;
  return (1.0 + expm1_small((x - k) * LN2)) * exp2_int(half_n) * exp2_int(n - half_n);
}

// x > 0 as m * 2^e with m in [sqrt(1/2), sqrt(2)); returns m - 1.
float log_reduce(float x, out float e) {
  e = 0.0;
  if (x < 1.17549435e-38) {
    x *= 8388608.0;
    e = -23.0;
  }
  uint u = floatBitsToUint(x) - 0x3f3504f3u;
  e += float(int(u) >> 23);
  return uintBitsToFloat((u & 0x7fffffu) + 0x3f3504f3u) - 1.0;
}
// (log(1 + z) - z + z^2 / 2) / z^3 for m in that range.
float log_tail(float z) {
  return ((((((((7.0376836292e-2 * z - 1.1514610310e-1) * z + 1.1676998740e-1) * z - 1.2420140846e-1) * z +
          1.4249322787e-1) * z - 1.6668057665e-1) * z + 2.0000714765e-1) * z - 2.4999993993e-1) * z + 3.3333331174e-1);
}
bool log_special(float x, out float y) {
  y = x;
  if (is_nan(x) || x == INF) return true;
  y = x == 0.0 ? -INF : NAN;
  return x <= 0.0;
}
float log_(float x) {
  float y, e;
  if (log_special(x, y)) return y;
  float z = log_reduce(x, e);
  precise float t = z * z * z * log_tail(z);
  t += -2.12194440e-4 * e;
  t += -0.5 * z * z;
  t = z + t;
  return t + 0.693359375 * e;
}
float log2_(float x) {
  float y, e;
  if (log_special(x, y)) return y;
  float z = log_reduce(x, e);
  precise float t = z * z * z * log_tail(z) - 0.5 * z * z;
  t = 0.44269504088896 * t + 0.44269504088896 * z + t + z;
  return t + e;
}
float log10_(float x) {
  float y, e;
  if (log_special(x, y)) return y;
  float z = log_reduce(x, e);
  precise float t = z * z * z * log_tail(z) - 0.5 * z * z;
  t = (t + z) * 0.434294481903252 + e * 2.48745663981e-4;  // log10(2) = 0.30078125 + 2.4874566e-4
  return t + e * 0.30078125;
}
float log1p_(float x) {
  if (is_nan(x) || x <= -1.0 || x > 1e8) return log_(1.0 + x);
  precise float u = 1.0 + x;
  precise float lost = x - (u - 1.0);
  return with_sign(log_(u) + lost / u, x);
}

// Exact products without fma, as a sum of two floats.
vec2 two_product(float a, float b) {
  precise float h = a * b;
  precise float ca = 4097.0 * a, cb = 4097.0 * b;
  precise float ah = ca - (ca - a), bh = cb - (cb - b);
  precise float al = a - ah, bl = b - bh;
  precise float l = ((ah * bh - h) + ah * bl + al * bh) + al * bl;
  return vec2(h, l);
}
// x^y for finite x > 0: log2 in double-float, so that large exponents keep their digits.
float pow_positive(float x, float y) {
  float e;
  float z = log_reduce(x, e);
  vec2 zz = two_product(z, z);
  precise float hi = z - 0.5 * zz.x;
  precise float lo = (z - hi) - 0.5 * zz.x;
  lo += z * zz.x * log_tail(z) - 0.5 * zz.y;
  precise float s = hi + lo;
  lo = lo - (s - hi);
  vec2 t = two_product(s, 1.44269502162933);
  t.y += s * 1.92596299113e-8 + lo * 1.44269504088896;
  precise float th = e + t.x;
  precise float tl = (e == 0.0 ? 0.0 : t.x - (th - e)) + t.y;
  if (abs(y) > 1e30) return th + tl == 0.0 ? 1.0 : ((th + tl > 0.0) == (y > 0.0) ? INF : 0.0);
  if (abs(th * y) > 200.0) return (th > 0.0) == (y > 0.0) ? INF : 0.0;
  vec2 q = two_product(th, y);
  q.y += tl * y;
  float k = roundEven(q.x);
  precise float f = (q.x - k) + q.y;
  int n = int(k), half_n = n >> 1;
  return (1.0 + expm1_small(f * LN2)) * exp2_int(half_n) * exp2_int(n - half_n);
}
float pow_(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (is_nan(x) || is_nan(y)) return NAN;
  float a = abs(x);
  bool whole = is_inf(y) || abs(y) >= 16777216.0 || y == floor(y);
  bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  float r;
  if (is_inf(y)) r = a == 1.0 ? 1.0 : ((a > 1.0) == (y > 0.0) ? INF : 0.0);
  else if (a == 0.0 || is_inf(a)) r = (a == 0.0) == (y < 0.0) ? INF : 0.0;
  else if (x < 0.0 && !whole) return NAN;
  else r = pow_positive(a, y);
  return odd && sign_bit(x) ? -r : r;
}

// x = r + quadrant * pi / 2, |r| <= pi / 4.
float trig_reduce(float x, out int quadrant) {
  if (abs(x) < 8192.0) {
    float k = roundEven(x * 0.636619772367581);
    quadrant = int(k);
    precise float r = x - k * 1.5703125;
    r = r - k * 4.837512969970703125e-4;
    r = r - k * 7.54978995489188216e-8;
    return r;
  }
  // Payne and Hanek: the fraction of x / (2 pi) from the bits of 1 / (2 pi) that matter.
  const uint turn[7] = uint[7](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,
      0x7f9458eau);
  uint u = floatBitsToUint(x);
  uint m = (u << 8) | 0x80000000u;
  int e = int((u >> 23) & 0xffu) - 126;
  int w = e >> 5;
  uint s = uint(e) & 31u;
  uint w0 = 0u, w1 = 0u, w2 = 0u, w3 = 0u;
  [[unroll]] for (int i = 0; i < 7; ++i) {
    if (i == w - 1) w0 = turn[i];
    if (i == w) w1 = turn[i];
    if (i == w + 1) w2 = turn[i];
    if (i == w + 2) w3 = turn[i];
  }
  if (s != 0u) {
    w0 = (w0 << s) | (w1 >> (32u - s));
    w1 = (w1 << s) | (w2 >> (32u - s));
    w2 = (w2 << s) | (w3 >> (32u - s));
  }
  uint64_t f = (uint64_t(m * w0) << 32) + uint64_t(m) * uint64_t(w1) + ((uint64_t(m) * uint64_t(w2)) >> 32);
  int q = int(f >> 62);
  int64_t g = int64_t(f << 2) >> 2;  // signed fraction of a quadrant in units of 2^-62
  if (g < int64_t(0)) ++q;
  float r = float(g) * 2.1684043449710089e-19 * 1.57079632679490;
  quadrant = x < 0.0 ? -q : q;
  return x < 0.0 ? -r : r;
}
float sin_kernel(float r) {
  float z = r * r;
  return ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r;
}
float cos_kernel(float r) {
  float z = r * r;
  return ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
}
float sin_quadrant(float r, int q) {
  float y = (q & 1) == 0 ? sin_kernel(r) : cos_kernel(r);
  return (q & 2) == 0 ? y : -y;
}
const float SMALL_ANGLE = 2.44140625e-4;  // 2^-12: below, sin x and tan x are x, and -0 is -0
float sin_(float x) {
  if (is_inf(x) || is_nan(x)) return NAN;
  if (abs(x) < SMALL_ANGLE) return x;
  int q;
  float r = trig_reduce(x, q);
  return sin_quadrant(r, q);
}
float cos_(float x) {
  if (is_inf(x) || is_nan(x)) return NAN;
  int q;
  float r = trig_reduce(x, q);
  return sin_quadrant(r, q + 1);
}
float tan_(float x) {
  if (is_inf(x) || is_nan(x)) return NAN;
  if (abs(x) < SMALL_ANGLE) return x;
  int q;
  float r = trig_reduce(x, q), z = r * r;
  float y = (((((9.38540185543e-3 * z + 3.11992232697e-3) * z + 2.44301354525e-2) * z + 5.34112807005e-2) * z +
            1.33387994085e-1) * z + 3.33331568548e-1) * z * r + r;
  return (q & 1) == 0 ? y : -1.0 / y;
}
float sin_pi(float x) {  // sin(pi x)
  float k = roundEven(2.0 * x);
  precise float r = x - 0.5 * k;
  return sin_quadrant(r * PI, int(mod(k, 4.0)));
}
float cos_pi(float x) {
  float k = roundEven(2.0 * x);
  precise float r = x - 0.5 * k;
  return sin_quadrant(r * PI, int(mod(k, 4.0)) + 1);
}

float asin_kernel(float z, float s) {
  return ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z +
      1.6666752422e-1) * z * s + s;
}
float asin_(float x) {
  float a = abs(x);
  if (!(a <= 1.0)) return NAN;
  float z = a > 0.5 ? 0.5 * (1.0 - a) : a * a;
  float y = asin_kernel(z, a > 0.5 ? sqrt(z) : a);
  if (a > 0.5) y = 1.57079632679490 - 2.0 * y;
  return with_sign(y, x);
}
float acos_(float x) {
  float a = abs(x);
  if (!(a <= 1.0)) return NAN;
  if (a <= 0.5) return 1.57079632679490 - with_sign(asin_kernel(a * a, a), x);
  float z = 0.5 * (1.0 - a);
  float y = 2.0 * asin_kernel(z, sqrt(z));
  return x < 0.0 ? PI - y : y;
}
float atan_(float x) {
  if (is_nan(x)) return x;
  float a = abs(x), base = 0.0;
  if (a > 2.414213562373095) {
    base = 1.57079632679490;
    a = -1.0 / a;
  } else if (a > 0.4142135623730950) {
    base = 0.785398163397448;
    a = (a - 1.0) / (a + 1.0);
  }
  float z = a * a;
  float y = (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * a + a;
  return with_sign(base + y, x);
}
float atan2_(float y, float x) {
  if (is_nan(x) || is_nan(y)) return NAN;
  float a;
  if (is_inf(x) && is_inf(y)) a = 0.785398163397448;
  else if (y == 0.0) a = 0.0;
  else if (x == 0.0) a = 1.57079632679490;
  else a = atan_(abs(y) / abs(x));
  if (sign_bit(x)) a = PI - a;
  return with_sign(a, y);
}
float sinh_(float x) {
  float a = abs(x), y;
  if (a < 1.0) {
    float z = x * x;
    return ((2.03721912945e-4 * z + 8.33028376239e-3) * z + 1.66667160211e-1) * z * x + x;
  }
  if (a > 88.0) {
    y = exp_(0.5 * a);
    y = 0.5 * y * y;
  } else {
    y = exp_(a);
    y = 0.5 * y - 0.5 / y;
  }
  return with_sign(y, x);
}
float cosh_(float x) {
  float a = abs(x);
  if (a > 88.0) {
    float h = exp_(0.5 * a);
    return 0.5 * h * h;
  }
  float y = exp_(a);
  return 0.5 * y + 0.5 / y;
}
float tanh_(float x) {
  float a = abs(x);
  if (is_nan(x)) return x;
  if (a < 0.625) {
    float z = x * x;
    const float y = ((((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z -
        3.33332819422e-1) * z * x + x;
    return with_sign(y, x);
  }
  return with_sign(a > 10.0 ? 1.0 : 1.0 - 2.0 / (exp_(2.0 * a) + 1.0), x);
}
float asinh_(float x) {
  float a = abs(x);
  return with_sign(a > 1e9 ? log_(a) + LN2 : log1p_(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}
float acosh_(float x) {
  if (!(x >= 1.0)) return NAN;
  precise float t = x - 1.0;
  return x > 1e9 ? log_(x) + LN2 : log1p_(t + sqrt(2.0 * t + t * t));
}
float atanh_(float x) {
  float a = abs(x);
  if (!(a <= 1.0)) return NAN;
  return a == 1.0 ? x * INF : with_sign(0.5 * log1p_(2.0 * a / (1.0 - a)), x);
}
float sigmoid_(float x) { return 1.0 / (1.0 + exp_(-x)); }
float softplus_(float x) { return is_nan(x) ? x : max(x, 0.0) + log1p_(exp_(-abs(x))); }
#endif
