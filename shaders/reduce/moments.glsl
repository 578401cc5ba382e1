// The state of var and std: count, mean and the sum of squared deviations, combined as Chan, Golub and LeVeque (1983)
// do. The squares of large numbers overflow although their deviation is a number, which the CPU finds in float64: a sum
// that is not far below the largest number is held as -m2 UNIT^2. Its bits, as an integer, are larger than any other's.
struct State { C n, mean, m2; };
#ifdef C_double
const C UNIT = 2.6497349136889905e-169lf, INVERSE_UNIT = 3.7739624248215414e+168lf;  // 2^-560, 2^560
bool is_large(C m2) { return unpackDouble2x32(m2).y > 0x7e700000u; }  // above 2^1000, negative, or NaN
#else
const C UNIT = 1.262177448353619e-29, INVERSE_UNIT = 7.922816251426434e+28;  // 2^-96, 2^96
bool is_large(C m2) { return floatBitsToUint(m2) > 0x7b800000u; }  // above 2^120, negative, or NaN
#endif
C in_units(C m2) { return m2 < C(0) ? -m2 : m2 * UNIT * UNIT; }

State begin() { return State(C(0), C(0), C(0)); }
State combine(State a, State b) {
  if (b.n == C(0)) return a;
  const C n = a.n + b.n, w = b.n / n;
  C d = b.mean - a.mean, m2 = a.m2 + b.m2 + d * (d * (a.n * w));  // a.n may be 0 where d * d is infinite
  C mean = a.mean + d * w;
  if (is_large(a.m2) || is_large(b.m2) || is_large(m2)) {
    d = b.mean * UNIT - a.mean * UNIT;
    m2 = -(in_units(a.m2) + in_units(b.m2) + d * (d * (a.n * w)));
    mean = (a.mean * UNIT + d * w) * INVERSE_UNIT;
  }
  return State(n, mean, m2);
}
// Of n elements from r on, `step` apart: sums of x - shift and its square, where shift is the first element, so that
// the subtraction cancels little. Large ones are read again, in units.
State moments_of(uint64_t base, uint64_t r, uint n, uint step) {
  const C shift = load(base + red_offset(r));
  C s1 = C(0), s2 = C(0);
  uint64_t at = r;
  for (uint k = 0; k < n; ++k, at += step) {
    const C d = load(base + red_offset(at)) - shift;
    s1 += d;
    s2 += d * d;
  }
  C m = s1 / C(n);
  if (!is_large(s2)) return State(C(n), shift + m, abs(max(s2 - s1 * m, C(0))));
  s1 = s2 = C(0);
  for (uint k = 0; k < n; ++k, r += step) {
    const C d = load(base + red_offset(r)) * UNIT - shift * UNIT;
    s1 += d;
    s2 += d * d;
  }
  m = s1 / C(n);
  return State(C(n), (shift * UNIT + m) * INVERSE_UNIT, -max(s2 - s1 * m, C(0)));
}
void finish(State s, uint64_t o) {
  const C divisor = max(s.n - C(p.arg), C(0));  // 0/0 is NaN, as PyTorch has it
  C x = abs(s.m2) / divisor;
  const C unit = s.m2 < C(0) ? INVERSE_UNIT : C(1);
  x = OP == OP_std ? sqrt(x) * unit : x * unit * unit;
  store(p.out_, o, x);
  if (p.out2 != uint64_t(0)) store(p.out2, o, s.mean);
}
