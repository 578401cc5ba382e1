// The functions of math_special.glsl and the rest of math.glsl's in float64. Include after gamma_functions.glsl.
#ifndef AULE_MATH_SPECIAL_DOUBLE_GLSL
#define AULE_MATH_SPECIAL_DOUBLE_GLSL
double asin_(double x) { return abs(x) <= 1.0lf ? atan2_(x, sqrt((1.0lf - x) * (1.0lf + x))) : DNAN; }
double acos_(double x) { return abs(x) <= 1.0lf ? atan2_(sqrt((1.0lf - x) * (1.0lf + x)), x) : DNAN; }
double asinh_(double x) {
  const double a = abs(x);
  return with_sign(a > 1e9lf ? log_(a) + 0.69314718055994530942lf : log1p_(a + a * a / (1.0lf + sqrt(a * a + 1.0lf))),
      x);
}
double acosh_(double x) {
  if (!(x >= 1.0lf)) return DNAN;
  const double t = x - 1.0lf;
  return x > 1e9lf ? log_(x) + 0.69314718055994530942lf : log1p_(t + sqrt(2.0lf * t + t * t));
}
double atanh_(double x) {
  const double a = abs(x);
  if (!(a <= 1.0lf)) return DNAN;
  return a == 1.0lf ? with_sign(DINF, x) : with_sign(0.5lf * log1p_(2.0lf * a / (1.0lf - a)), x);
}
double erfinv_(double x) {
  const double a = abs(x), root = 0.70710678118654752440lf;
  if (a == 1.0lf) return with_sign(DINF, x);
  if (!(a < 1.0lf)) return DNAN;
  if (a < 0.7lf) return ndtri_central(0.5lf * x) * root;
  return with_sign(ndtri_(0.5lf * (1.0lf - a)) * root, x);
}
double erfcx_(double x) {
  if (isnan(x)) return x;
  if (x < 1.0lf) return x < -27.0lf ? DINF : exp_(x * x) * erfc_(x);
  double f = 0.0lf;  // continued fraction, as of erfc
  for (int n = x < 2.5lf ? 170 : 80; n >= 1; --n) f = 0.5lf * double(n) / (x + f);
  return 0.56418958354775628695lf / (x + f);
}
double log_gamma_positive(double x) {
  if (x >= 0.5lf && x <= 2.5lf) return log_gamma1p(x - 1.0lf);
  double product = 1.0lf;
  for (int i = 0; i < 12 && x < 12.0lf; ++i) {
    product *= x;
    x += 1.0lf;
  }
  const double r = 1.0lf / x;
  if (x > 1e200lf) return x * (log_(x) - 1.0lf);
  return (x - 0.5lf) * log_(x) - x + 0.91893853320467274178lf + r * stirling_series(r * r) - log_(product);
}
double log_gamma(double x) {
  if (isnan(x)) return x;
  if (isinf(x)) return DINF;
  if (x < 0.5lf) {
    if (x <= 0.0lf && x == floor(x)) return DINF;
    if (abs(x) < 1e-20lf) return -log_(abs(x));
    return log_(3.14159265358979323846lf / abs(sin_pi(x))) - log_gamma_positive(1.0lf - x);
  }
  return log_gamma_positive(x);
}
double digamma_(double x) {
  if (isnan(x) || x == DINF) return x;
  if (x == 0.0lf) return with_sign(DINF, -x);
  double y = 0.0lf;
  if (x < 0.0lf) {
    if (x == floor(x)) return DNAN;
    y = -3.14159265358979323846lf * cos_pi(x) / sin_pi(x);
    x = 1.0lf - x;
  }
  for (int i = 0; i < 12 && x < 12.0lf; ++i) {
    y -= 1.0lf / x;
    x += 1.0lf;
  }
  const double z = 1.0lf / (x * x);
  // B[2k] / (2 k)
  const double c[8] = double[8](1.0lf / 12.0lf, -1.0lf / 120.0lf, 1.0lf / 252.0lf, -1.0lf / 240.0lf, 1.0lf / 132.0lf,
      -691.0lf / 32760.0lf, 1.0lf / 12.0lf, -3617.0lf / 8160.0lf);
  double sum = 0.0lf;
  [[unroll]] for (int k = 7; k >= 0; --k) sum = (sum + c[k]) * z;
  return y + log_(x) - 0.5lf / x - sum;
}
double trigamma_(double x) { return zeta_(2.0lf, x); }
#endif
