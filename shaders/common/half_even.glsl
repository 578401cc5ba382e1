// half_even(x): x rounded to a whole number, halves to the even one, of the variant's type (C_float, C_double). May be
// included once for each of several types.
#ifdef C_double
#ifndef AULE_HALF_EVEN_DOUBLE
#define AULE_HALF_EVEN_DOUBLE
// The lavapipe of Mesa 22.3 cuts halves off in roundEven of doubles, on processors without AVX-512.
double half_even(double x) {
  const double whole = trunc(x), rest = abs(x - whole), half_whole = trunc(whole * 0.5lf);
  const bool away = rest > 0.5lf || (rest == 0.5lf && half_whole * 2.0lf != whole);
  return away ? whole + sign(x) : whole;
}
#endif
#elif !defined(AULE_HALF_EVEN_FLOAT)
#define AULE_HALF_EVEN_FLOAT
float half_even(float x) { return roundEven(x); }
#endif
