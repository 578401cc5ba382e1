// The two nonlinearities of recurrent cells. tanh_ is accurate near 0 and does not overflow.
#include "common/float_bits.glsl"
#include "common/real.glsl"
REAL sigmoid(REAL x) { return 1.0 / (1.0 + exp(-x)); }
REAL tanh_(REAL x) {
#ifdef C_double
  // Below 0.1 the series, x (1 + x^2 s), whose first term left out is 1e-17 of x.
  if (abs(x) < 0.1) {
    const REAL w = x * x;
    REAL s = -929569.0lf / 638512875.0lf;
    s = s * w + 21844.0lf / 6081075.0lf;
    s = s * w - 1382.0lf / 155925.0lf;
    s = s * w + 62.0lf / 2835.0lf;
    s = s * w - 17.0lf / 315.0lf;
    s = s * w + 2.0lf / 15.0lf;
    s = s * w - 1.0lf / 3.0lf;
    return x + x * w * s;
  }
#endif
  REAL t = exp(-2.0 * abs(x));
  return abs(x) < 1e-3 ? x : sign(x) * (1.0 - t) / (1.0 + t);
}
