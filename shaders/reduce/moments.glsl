// The state of var and std: count, mean and the sum of squared deviations, combined as Chan, Golub and LeVeque (1983)
// do. Squares that overflow make that sum infinite, and the mean stays a number as far as the elements are.
struct State { C n, mean, m2; };
#ifdef C_double
C no_number() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }
#else
C no_number() { return uintBitsToFloat(0x7fc00000u); }
#endif

State begin() { return State(C(0), C(0), C(0)); }
State combine(State a, State b) {
  if (is_zero(b.n)) return a;
  if (is_zero(a.n)) return b;  // 0 times an infinite square would be NaN
  const C n = a.n + b.n, w = b.n / n, d = b.mean - a.mean;
  // Of means that are far apart, the difference is infinite.
  precise C apart = a.mean * (C(1) - w) + b.mean * w;
  const C mean = is_finite(d) ? a.mean + d * w : apart;
  return State(n, mean, a.m2 + b.m2 + d * d * a.n * w);
}
// Of a block of n elements from r on, `step` apart: sums of x - shift and its square, where shift is the first element,
// so that the subtraction cancels little.
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
  if (is_finite(s2)) return State(C(n), shift + m, max(s2 - s1 * m, C(0)));
  // Too large, or not numbers: the mean again, in units in which no sum of a block overflows.
  const C unit = C(1) / C(4 * BLOCK);
  s1 = C(0);
  for (uint k = 0; k < n; ++k, r += step) s1 += load(base + red_offset(r)) * unit;
  precise C part = s1 / C(n), whole = part * C(4 * BLOCK);  // s1 in whole units may be infinite
  return State(C(n), whole, is_finite(whole) ? s2 : no_number());
}
void finish(State s, uint64_t o) {
  const C correction = OP == OP_invstd ? C(0) : C(p.arg);
  C x = s.m2 / max(s.n - correction, C(0));  // 0/0 is NaN, as PyTorch has it
  if (OP == OP_std) x = sqrt(x);
  if (OP == OP_invstd) x = C(1) / sqrt(x + C(p.arg));
  store(p.out_, o, x);
  if (p.out2 != uint64_t(0)) store(p.out2, o, s.mean);
}
