// Long functions of complex numbers. Include after complex.glsl.
#ifndef AULE_COMPLEX_SPECIAL_GLSL
#define AULE_COMPLEX_SPECIAL_GLSL
const R HALF_PI = R(1.57079632679489661923lf), LOG_2 = R(0.69314718055994530942lf);
bool finite(R x) { return !is_nan(x) && !is_inf(x); }

// 2 a + a^2 + b^2 = (1 + a)^2 + b^2 - 1, exact products and sums but for the last ones.
R norm_less_one(R a, R b) {
  const T aa = two_product(a, a), bb = two_product(b, b);
  precise R twice = R(2) * a, s = twice + aa.x, v = s - twice;
  precise R lost = (twice - (s - v)) + (aa.x - v);
  precise R t = s + bb.x, w = t - s;
  precise R lost_too = (s - (t - w)) + (bb.x - w);
  return t + ((lost + lost_too) + (aa.y + bb.y));
}
// Near |z| = 1 the logarithm of |z| is small, and is taken of |z|^2 - 1.
T c_log(T z) {
  const R angle = c_angle(z), a = abs(z.x), b = abs(z.y);
  if (is_inf(a) || is_inf(b)) return T(R_INF, angle);
  if (c_isnan(z)) return T(R_NAN);
  const R larger = a > b ? a : b, smaller = a > b ? b : a;
  if (larger == R(0)) return T(-R_INF, angle);
  const R size = larger * larger + smaller * smaller;
  if (size > R(0.5) && size < R(2)) {
    precise R beside = larger - R(1);
    return T(R(0.5) * log1p_(norm_less_one(beside, smaller)), angle);
  }
  const R ratio = divide(smaller, larger);
  return T(log_(larger) + R(0.5) * log1p_(ratio * ratio), angle);
}
T c_log1p(T z) {
  if (abs(z.x) < R(0.5) && abs(z.y) < R(0.5)) {
    const R size = norm_less_one(z.x, z.y);
    return T(size == R(0) ? z.x : R(0.5) * log1p_(size), atan2_(z.y, R(1) + z.x));
  }
  return c_log(z + ONE);
}
T c_exp2(T z) {
  if (z.y == R(0)) return T(exp2_(z.x), z.y);
  const R angle = z.y * LOG_2;
  if (is_inf(z.x) && !finite(z.y)) return z.x > R(0) ? T(z.x, R_NAN) : T(R(0));
  const R half_way = exp2_(R(0.5) * z.x);
  return abs(z.x) > R(120) ? T(cos_(angle), sin_(angle)) * half_way * half_way
                           : T(cos_(angle), sin_(angle)) * exp2_(z.x);
}
T c_expm1(T z) {
  if (z.y == R(0)) return T(expm1_(z.x), z.y);
  if (is_inf(z.x) && !finite(z.y)) return z.x > R(0) ? T(z.x, R_NAN) : T(R(-1), R(0));
  const R sine = sin_(R(0.5) * z.y);
  if (z.x > R_EXP_LIMIT) return c_exp(z);
  return T(expm1_(z.x) * cos_(z.y) - R(2) * sine * sine, exp_(z.x) * sin_(z.y));
}
T c_sinh(T z) {
  if (z.y == R(0)) return T(sinh_(z.x), z.y);
  if (!finite(z.y) && (z.x == R(0) || is_inf(z.x))) return T(z.x, R_NAN);
  const T circle = T(cos_(z.y), sin_(z.y));
  if (abs(z.x) > R_EXP_LIMIT) {
    const T half_size = c_polar_exp(abs(z.x), circle * R(0.5));
    return T(z.x < R(0) ? -half_size.x : half_size.x, half_size.y);
  }
  return T(sinh_(z.x) * circle.x, cosh_(z.x) * circle.y);
}
T c_cosh(T z) {
  if (z.y == R(0)) return T(cosh_(z.x), is_nan(z.x) || !sign_bit(z.x) ? z.y : -z.y);
  if (z.x == R(0)) return T(cos_(z.y), finite(z.y) ? z.x * sin_(z.y) : R(0));
  if (is_inf(z.x) && !finite(z.y)) return T(R_INF, R_NAN);
  const T circle = T(cos_(z.y), sin_(z.y));
  if (abs(z.x) > R_EXP_LIMIT) {
    const T half_size = c_polar_exp(abs(z.x), circle * R(0.5));
    return T(half_size.x, z.x < R(0) ? -half_size.y : half_size.y);
  }
  return T(cosh_(z.x) * circle.x, sinh_(z.x) * circle.y);
}
// Kahan's tanh.
T c_tanh(T z) {
  if (is_nan(z.x)) return T(z.x, z.y == R(0) ? z.y : R_NAN);
  if (is_inf(z.x) && !finite(z.y)) return T(with_sign(R(1), z.x), R(0));
  if (!finite(z.y)) return T(z.x == R(0) ? z.x : R_NAN, R_NAN);
  const R a = abs(z.x);
#ifdef C_dvec2
  const R far = R(20);
#else
  const R far = R(9);
#endif
  if (a > far) {
    const R e = exp_(-a);
    return T(with_sign(R(1), z.x), R(4) * sin_(z.y) * cos_(z.y) * e * e);
  }
  const R t = tan_(z.y), b = R(1) + t * t, s = sinh_(z.x), r = sqrt_(R(1) + s * s), d = R(1) + b * s * s;
  return T(b * r * s / d, t / d);
}
// Hull, Fairgrieve and Tang (TOMS 23, 1997), for |x| and |y|: b = sqrt(a^2 - x^2), so that asin's real part is
// atan2(x, b) and acos' is atan2(b, x), and asin's imaginary part, a = (|z + 1| + |z - 1|) / 2.
T arc_parts(R x, R y) {
  if (is_inf(x) || is_inf(y)) return T(is_inf(y) ? (is_inf(x) ? R(1) : R_INF) : R(0), R_INF);
  if (x > R_HUGE || y > R_HUGE) {  // a^2 would overflow
    const R ratio = x > y ? divide(y, x) : divide(x, y);
    return T(y, log_(x > y ? x : y) + R(0.5) * log1p_(ratio * ratio) + LOG_2);
  }
  precise R below = x - R(1), above = x + R(1);
  const R r = c_abs(T(above, y)), s = c_abs(T(below, y)), a = R(0.5) * (r + s);
  R over, b;  // a - 1
  if (x <= R(1)) {
    const R tail = s - below;
    if (y < R_SMALL && below != R(0)) {  // y^2 underflows
      b = sqrt_(-below * above);
      return T(b, y / b);
    }
    over = R(0.5) * (y * y / (r + above) + (below == R(0) ? s : y * y / tail));
    b = sqrt_(R(0.5) * (a + x) * (y * y / (r + above) + tail));
  } else {
    over = R(0.5) * (y * y / (r + above) + (s + below));
    b = y * sqrt_(R(0.5) * ((a + x) / (r + above) + (a + x) / (s + below)));
  }
  return T(b, log1p_(over + sqrt_(over) * sqrt_(a + R(1))));
}
T c_asin(T z) {
  if (c_isnan(z)) {
    if (is_inf(z.x) || is_inf(z.y)) return T(R_NAN, is_inf(z.y) ? z.y : R_INF);
    return T(z.x == R(0) ? z.x : R_NAN, z.y == R(0) && !is_nan(z.x) ? z.y : R_NAN);
  }
  const T arc = arc_parts(abs(z.x), abs(z.y));
  R angle = atan2_(abs(z.x), arc.x);
  if (is_inf(z.x) || is_inf(z.y)) angle = atan2_(abs(z.x), abs(z.y));
  return T(with_sign(angle, z.x), with_sign(arc.y, z.y));
}
T c_acos(T z) {
  if (c_isnan(z)) {
    if (is_inf(z.x) || is_inf(z.y)) return T(R_NAN, is_inf(z.y) ? -z.y : R_INF);
    return T(z.x == R(0) ? HALF_PI : R_NAN, R_NAN);
  }
  const T arc = arc_parts(abs(z.x), abs(z.y));
  R angle = atan2_(arc.x, z.x);
  if (is_inf(z.x) || is_inf(z.y)) angle = atan2_(abs(z.y), z.x);
  return T(angle, with_sign(arc.y, -z.y));
}
T c_acosh(T z) {
  const T w = c_acos(z);
  return T(abs(w.y), with_sign(w.x, z.y));
}
T c_atanh(T z) {
  const R x = abs(z.x), y = abs(z.y);
  if (is_inf(x) || is_inf(y)) return T(is_nan(z.x) && !is_inf(y) ? R_NAN : with_sign(R(0), z.x),
      is_nan(z.y) ? z.y : with_sign(HALF_PI, z.y));
  if (c_isnan(z)) return T(z.x == R(0) ? z.x : R_NAN, R_NAN);
  if (x > R_HUGE || y > R_HUGE) {
    const T inverse = c_div(ONE, z);
    return T(inverse.x, with_sign(HALF_PI, z.y));
  }
  precise R below = R(1) - x;
  const R other = below * (R(1) + x) - y * y, divisor = below * below + y * y;
  const R real = y < R_SMALL && below == R(0) && y > R(0) ? R(0.5) * (LOG_2 - log_(y))
                                                         : R(0.25) * log1p_(divide(R(4) * x, divisor));
  return T(with_sign(real, z.x), with_sign(R(0.5) * atan2_(R(2) * y, other), z.y));
}
T c_sinc(T z) {
  if (!c_true(z)) return ONE;
  const R pi = R(3.14159265358979323846lf), height = pi * z.y;
  return c_div(T(sin_pi(z.x) * cosh_(height), cos_pi(z.x) * sinh_(height)), z * pi);
}
T c_logaddexp(T z, T w) {
  if (c_isnan(z) || c_isnan(w)) return T(R_NAN);
  const bool first = z.x < w.x;
  const T low = first ? z : w, high = first ? w : z;
  if (is_inf(low.x) && low.x == high.x) return low.x < R(0) ? w : c_log(c_exp(low) + c_exp(high));
  return c_log1p(c_exp(low - high)) + high;
}
#endif
