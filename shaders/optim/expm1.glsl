// e^x - 1 for x <= 0 to float32 accuracy: by its series near 0.
float expm1_(float x) {
  if (x < -0.3) return exp(x) - 1.0;
  float y = 1.0;
  for (int i = 9; i >= 2; --i) y = 1.0 + x * y / float(i);
  return x * y;
}
