// Functions of float64 that complex numbers and long functions take and math_double.glsl lacks.
#ifndef AULE_COMPLEX_DOUBLE_GLSL
#define AULE_COMPLEX_DOUBLE_GLSL
double tan_(double x) {
  if (isnan(x) || isinf(x)) return DNAN;
  return sin_(x) / cos_(x);
}
double sinh_(double x) {
  const double a = abs(x);
  if (a > 709.0lf) {
    const double half_way = exp_(0.5lf * a);
    return with_sign(0.5lf * half_way * half_way, x);
  }
  const double e = expm1_(a);
  return with_sign(0.5lf * (e + e / (e + 1.0lf)), x);
}
double cosh_(double x) {
  const double a = abs(x);
  const double half_way = exp_(0.5lf * a);
  return a > 709.0lf ? 0.5lf * half_way * half_way : 0.5lf * (exp_(a) + exp_(-a));
}
// Halves the angle until the series is short: atan x = 2 atan(x / (1 + sqrt(1 + x^2))).
double atan_(double x) {
  if (isnan(x)) return x;
  double a = abs(x), base = 0.0lf;
  if (a > 1.0lf) {
    base = 1.57079632679489661923lf;
    a = -1.0lf / a;
  }
  a = a / (1.0lf + sqrt(1.0lf + a * a));
  a = a / (1.0lf + sqrt(1.0lf + a * a));
  const double z = a * a;
  double y = 0.0lf;
  for (int n = 23; n >= 1; n -= 2) y = 1.0lf / double(n) - z * y;
  return with_sign(base + 4.0lf * (a * y), x);
}
double atan2_(double y, double x) {
  if (isnan(x) || isnan(y)) return DNAN;
  double a;
  if (isinf(x) && isinf(y)) a = 0.78539816339744830962lf;
  else if (y == 0.0lf) a = 0.0lf;
  else if (x == 0.0lf) a = 1.57079632679489661923lf;
  else a = atan_(abs(y) / abs(x));
  if (sign_bit(x)) a = 3.14159265358979323846lf - a;
  return with_sign(a, y);
}
dvec2 two_product(double a, double b) {
  precise double h = a * b;
  precise double ca = 134217729.0lf * a, cb = 134217729.0lf * b;
  precise double ah = ca - (ca - a), bh = cb - (cb - b);
  precise double al = a - ah, bl = b - bh;
  precise double l = ((ah * bh - h) + ah * bl + al * bh) + al * bl;
  return dvec2(h, l);
}
double sin_pi(double x) {
  double k = roundEven(2.0lf * x);
  precise double r = x - 0.5lf * k;
  return sin_quadrant(r * 3.14159265358979323846lf, int(mod(k, 4.0lf)));
}
double cos_pi(double x) {
  double k = roundEven(2.0lf * x);
  precise double r = x - 0.5lf * k;
  return sin_quadrant(r * 3.14159265358979323846lf, int(mod(k, 4.0lf)) + 1);
}
#endif
