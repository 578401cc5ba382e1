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
