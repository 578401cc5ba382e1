// r - log(1 + r) for r > -1, without the cancellation near 0: with z = r / (2 + r), log(1 + r) = 2 atanh z and
// r = 2 z / (1 - z). Include after real.glsl.
REAL minus_log1p(REAL r) {
  if (abs(r) > REAL(0.5)) return r - log(REAL(1) + r);
  const REAL z = r / (REAL(2) + r), w = z * z;
  REAL s = REAL(0);
  for (int k = 25; k >= 3; k -= 2) s = s * w + REAL(1) / REAL(k);
  return REAL(2) * w / (REAL(1) - z) - REAL(2) * z * w * s;
}
