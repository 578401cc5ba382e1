// The two nonlinearities of recurrent cells. tanh_ is accurate near 0 and does not overflow.
float sigmoid(float x) { return 1.0 / (1.0 + exp(-x)); }
float tanh_(float x) {
  float t = exp(-2.0 * abs(x));
  return abs(x) < 1e-3 ? x : sign(x) * (1.0 - t) / (1.0 + t);
}
