// Count, mean and sum of squared deviations; C is their type. Include after norm/rowwise.glsl.
struct Moments { C n, mean, m2; };
// Squares that overflow give an infinite m2, and a row of 0 as on the CPU: infinity - infinity would be NaN, or 0.
Moments moments(C n, C shift, C s1, C s2) {
  C m = n == C(0) ? C(0) : s1 / n;
  return Moments(n, shift + m, mix(s2, max(s2 - s1 * m, C(0)), is_finite(s2)));
}
Moments combine(Moments a, Moments b) {
  C n = a.n + b.n;
  if (n == C(0)) return a;
  C d = b.mean - a.mean, w = b.n / n;
  return Moments(n, a.mean + d * w, a.m2 + b.m2 + d * (d * (a.n * w)));  // a.n may be 0 where d * d is infinite
}
