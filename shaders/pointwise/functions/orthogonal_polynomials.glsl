// Orthogonal polynomials of degree n at x, in the arithmetic type T (float or double). n is a number that is cut to a
// whole one; a negative one, NaN and infinity give 0, as on the CPU.
#ifndef AULE_ORTHOGONAL_POLYNOMIALS_GLSL
#define AULE_ORTHOGONAL_POLYNOMIALS_GLSL
const int MAX_TERMS = 8192;  // of a recurrence: four elements of an invocation stay below what software drivers loop

bool is_degree(T n) { return n > T(-1) && n < T(9.2e18lf); }
bool is_odd(T n) { return n - T(2) * floor(T(0.5) * n) == T(1); }

// Chebyshev polynomials of the kinds T, U, V, W (0 to 3): p[k] = 2 x p[k - 1] - p[k - 2].
T chebyshev_at_one(int kind, T n) { return kind == 0 || kind == 2 ? T(1) : (kind == 1 ? n + T(1) : T(2) * n + T(1)); }
T chebyshev_at_minus_one(int kind, T n) {
  const T y = kind == 0 || kind == 3 ? T(1) : (kind == 1 ? n + T(1) : T(2) * n + T(1));
  return is_odd(n) ? -y : y;
}
T chebyshev_by_angle(int kind, T x, T n) {  // |x| < 1
  const T a = acos_(x);
  if (kind == 0) return cos_(n * a);
  if (kind == 1) return sin_((n + T(1)) * a) / sin_(a);
  const T m = (n + T(0.5)) * a;
  return kind == 2 ? cos_(m) / cos_(T(0.5) * a) : sin_(m) / sin_(T(0.5) * a);
}
T chebyshev_by_growth(int kind, T x, T n) {  // |x| > 1: the same with hyperbolic functions
  const T d = abs(x) - T(1), a = log1p_(d + sqrt_(d * (d + T(2))));
  const bool is_flipped = x < T(0);
  if (is_flipped && kind >= 2) kind = 5 - kind;  // V[n](-x) = (-1)^n W[n](x)
  T y;
  if (kind == 0) y = cosh_(n * a);
  else if (kind == 1) y = sinh_((n + T(1)) * a) / sinh_(a);
  else if (kind == 2) y = cosh_((n + T(0.5)) * a) / cosh_(T(0.5) * a);
  else y = sinh_((n + T(0.5)) * a) / sinh_(T(0.5) * a);
  return is_flipped && is_odd(n) ? -y : y;
}
T chebyshev(int kind, T x, T n) {
  if (!is_degree(n)) return T(0);
  n = trunc(n);
  if (x == T(1)) return chebyshev_at_one(kind, n);
  if (x == T(-1)) return chebyshev_at_minus_one(kind, n);
  if (n > T(6) && abs(x) < T(1)) return chebyshev_by_angle(kind, x, n);
  if (n == T(0)) return T(1);
  if (n > T(MAX_TERMS)) return chebyshev_by_growth(kind, x, n);
  T p = T(1), q = kind == 0 ? x : (kind == 1 ? x + x : (kind == 2 ? x + x - T(1) : x + x + T(1)));
  for (int k = 2; k <= int(n) && !is_nan(q); ++k) {
    const T r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return q;
}
T shifted_chebyshev(int kind, T x, T n) { return chebyshev(kind, x + x - T(1), n); }

#ifdef C_float
const int MAX_HERMITE = 128;
#else
const int MAX_HERMITE = 512;
#endif
// Hermite polynomials: `scale` 2 for H (p[k] = 2 x p[k - 1] - 2 (k - 1) p[k - 2]), 1 for He. NaN past a degree, as on
// the CPU.
T hermite(T scale, T x, T n) {
  if (!is_degree(n)) return T(0);
  n = trunc(n);
  if (n == T(0)) return T(1);
  if (n > T(MAX_HERMITE)) return T(NAN);
  T p = T(1), q = scale * x;
  for (int k = 1; k < int(n); ++k) {
    const T r = scale * (x * q - T(k) * p);
    p = q;
    q = r;
  }
  return q;
}
// Recurrences whose steps depend on their number: NaN past MAX_TERMS.
T laguerre(T x, T n) {
  if (!is_degree(n)) return T(0);
  n = trunc(n);
  if (n == T(0) || x == T(0)) return T(1);
  if (n > T(MAX_TERMS)) return T(NAN);
  T p = T(1), q = T(1) - x;
  for (int k = 1; k < int(n) && !is_nan(q); ++k) {
    const T r = ((T(2 * k) + (T(1) - x)) * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}
T legendre(T x, T n) {
  if (!is_degree(n)) return T(0);
  n = trunc(n);
  if (abs(x) == T(1)) return x < T(0) && is_odd(n) ? T(-1) : T(1);
  if (n == T(0)) return T(1);
  if (n > T(MAX_TERMS)) return T(NAN);
  T p = T(1), q = x;
  for (int k = 1; k < int(n) && !is_nan(q); ++k) {
    const T r = (T(2 * k + 1) * x * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}
#endif
