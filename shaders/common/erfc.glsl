// The complementary error function without a branch, for activations: the driver's exp is exact enough for them.
#ifndef AULE_ERFC_GLSL
#define AULE_ERFC_GLSL
// erfc on a >= 0, to 1.4e-7 of its value: t = 1 / (1 + a / 2), and log(erfc(a) exp(a^2) / t) is nearly a polynomial of
// t, here the best of degree 9 for a <= 12. Epilogues are unrolled many times: no branch.
float erfc_of_positive(float a) {
  const float t = 1.0 / (1.0 + 0.5 * a);
  return t * exp(-a * a - 1.26547617 + t * (0.999207131 + t * (0.381705744 + t * (0.0581435072 + t * (-0.0677271447 +
      t * (0.0490784671 + t * (-0.851999902 + t * (1.273261 + t * (-0.730143772 + t * 0.153951194)))))))));
}
#endif
