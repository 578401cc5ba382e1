// e^x - 1 for x <= 0 to the accuracy of REAL: by its series near 0.
#ifdef C_double
#define AULE_EXPM1_TERMS 16
#else
#define AULE_EXPM1_TERMS 9
#endif
REAL expm1_(REAL x) {
  if (x < -0.3) return exp(x) - 1.0;
  REAL y = REAL(1);
  for (int i = AULE_EXPM1_TERMS; i >= 2; --i) y = 1.0 + x * y / REAL(i);
  return x * y;
}
