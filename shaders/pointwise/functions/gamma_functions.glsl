// The Hurwitz zeta function, the incomplete gamma functions and the inverse of the normal distribution, in the
// arithmetic type T (float or double). Coefficients: ndtri's are of the Cephes Mathematical Library (Stephen L.
// Moshier), those of N. M. Temme's uniform expansion SciPy's, the others Taylor's.
#ifndef AULE_GAMMA_FUNCTIONS_GLSL
#define AULE_GAMMA_FUNCTIONS_GLSL
#ifdef C_float
const T ROUNDING = T(5.9604644775390625e-8lf);
#else
const T ROUNDING = T(1.1102230246251565e-16lf);
#endif

// The sum of (q + k)^-s over k >= 0, q > 0: the first terms, then Euler and Maclaurin's formula with B[2k] / (2k)!.
T zeta_positive(T s, T q) {
  const T c[12] = T[12](T(0.08333333333333333lf), T(-0.001388888888888889lf), T(3.306878306878307e-05lf),
      T(-8.267195767195768e-07lf), T(2.08767569878681e-08lf), T(-5.284190138687493e-10lf),
      T(1.3382536530684679e-11lf), T(-3.3896802963225827e-13lf), T(8.586062056277845e-15lf),
      T(-2.174868698558062e-16lf), T(5.5090028283602295e-18lf), T(-1.3954464685812522e-19lf));
  T sum = pow_(q, -s), a = q, term = T(0);
  for (int i = 0; i < 9; ++i) {
    a += T(1);
    term = pow_(a, -s);
    sum += term;
    if (abs(term) < ROUNDING * abs(sum)) return sum;
  }
  sum += term * a / (s - T(1)) - T(0.5) * term;
  T factor = term * s / a;
  [[unroll]] for (int k = 0; k < 12; ++k) {
    const T t = factor * c[k];
    sum += t;
    if (abs(t) < ROUNDING * abs(sum)) break;
    factor *= (s + T(2 * k + 1)) / a * ((s + T(2 * k + 2)) / a);
  }
  return sum;
}
// For q < 0 and a whole s, the terms of negative and of positive base are sums of their own.
T zeta_(T s, T q) {
  if (s == T(1)) return T(INF);
  if (s < T(1)) return T(NAN);
  if (!(q <= T(0))) return zeta_positive(s, q);
  if (q == floor(q)) return T(INF);
  if (s != floor(s)) return T(NAN);
  const T mirrored = zeta_positive(s, ceil(q) - q) - zeta_positive(s, T(1) - q);
  const bool is_odd_power = s - T(2) * floor(T(0.5) * s) == T(1);
  return zeta_positive(s, q - floor(q)) + (is_odd_power ? -mirrored : mirrored);
}

// 1 / Gamma(1 + t) - 1 = t rgamma1p_tail(t), |t| <= 0.5.
T rgamma1p_tail(T z) {
  return ((((((((((((((((T(1.0434267116911005e-10lf) * z - T(1.18127457048702e-09lf))
       * z + T(5.002007644469223e-09lf)) * z + T(6.116095104481416e-09lf)) * z - T(2.056338416977607e-07lf))
       * z + T(1.133027231981696e-06lf)) * z - T(1.2504934821426706e-06lf)) * z - T(2.013485478078824e-05lf))
       * z + T(0.0001280502823881162lf)) * z - T(0.00021524167411495098lf)) * z - T(0.0011651675918590652lf))
       * z + T(0.0072189432466631lf)) * z - T(0.009621971527876973lf)) * z - T(0.04219773455554433lf))
       * z + T(0.16653861138229148lf)) * z - T(0.04200263503409524lf)) * z - T(0.6558780715202539lf))
       * z + T(0.5772156649015329lf);
}
// ln Gamma(a) - (a - 1/2) ln a + a - ln sqrt(2 pi) = z stirling_series(z^2), z = 1 / a.
T stirling_series(T z) {
  return ((((((T(-0.029550653594771242lf) * z + T(0.00641025641025641lf)) * z - T(0.0019175269175269176lf))
       * z + T(0.0008417508417508417lf)) * z - T(0.0005952380952380953lf)) * z + T(0.0007936507936507937lf))
       * z - T(0.002777777777777778lf)) * z + T(0.08333333333333333lf);
}
T temme_0(T z) {
  return ((((((((((((T(-4.382036018453353e-09lf) * z + T(1.0261809784240309e-08lf))
       * z + T(6.707853543401498e-09lf)) * z - T(1.7665952736826078e-07lf)) * z + T(8.296711340953087e-07lf))
       * z - T(1.85406221071516e-06lf)) * z - T(2.1854485106799924e-06lf)) * z + T(3.919263178522438e-05lf))
       * z - T(0.0001787551440329218lf)) * z + T(0.0003527336860670194lf)) * z + T(0.0011574074074074073lf))
       * z - T(0.014814814814814815lf)) * z + T(0.08333333333333333lf)) * z - T(0.3333333333333333lf);
}
T temme_1(T z) {
  return ((((((((((((T(-1.7543241719747647e-11lf) * z + T(1.1951628599778148e-08lf))
       * z - T(5.752545603517705e-08lf)) * z + T(1.378633446915721e-07lf)) * z + T(4.647127802807434e-09lf))
       * z - T(1.6120900894563446e-06lf)) * z + T(7.64916091608111e-06lf)) * z - T(1.8098550334489977e-05lf))
       * z - T(4.018775720164609e-07lf)) * z + T(0.00020576131687242798lf)) * z - T(0.0009902263374485596lf))
       * z + T(0.0026455026455026454lf)) * z - T(0.003472222222222222lf)) * z - T(0.001851851851851852lf);
}
T temme_2(T z) {
  return ((((((((((((T(6.228974084922022e-09lf) * z - T(1.409252991086752e-08lf))
       * z - T(2.0477098421990866e-10lf)) * z + T(1.4280614206064242e-07lf)) * z - T(6.298992138380055e-07lf))
       * z + T(1.3721957309062932e-06lf)) * z + T(3.423578734096138e-08lf)) * z - T(1.2760635188618728e-05lf))
       * z + T(5.2923448829120125e-05lf)) * z - T(0.00010736653226365161lf)) * z + T(2.0093878600823047e-06lf))
       * z + T(0.0007716049382716049lf)) * z - T(0.0026813271604938273lf)) * z + T(0.004133597883597883lf);
}
T temme_3(T z) {
  return ((((((((((((T(2.3928620439808118e-12lf) * z - T(1.9111168485973655e-08lf))
       * z + T(8.099464905388083e-08lf)) * z - T(1.6958404091930278e-07lf)) * z - T(2.7861080291528143e-11lf))
       * z + T(1.4230900732435883e-06lf)) * z - T(5.6749528269915965e-06lf)) * z + T(1.1082654115347302e-05lf))
       * z - T(2.396505113867297e-07lf)) * z - T(7.561801671883977e-05lf)) * z + T(0.00026772063206283885lf))
       * z - T(0.0004691894943952557lf)) * z + T(0.00022947209362139917lf)) * z + T(0.0006494341563786008lf);
}
T temme_4(T z) {
  return ((((((((((((T(-1.4189739437803219e-08lf) * z + T(2.8865829742708783e-08lf))
       * z + T(2.956794137544049e-11lf)) * z - T(2.292934834000805e-07lf)) * z + T(8.907507532205309e-07lf))
       * z - T(1.6954149536558305e-06lf)) * z + T(2.507497226237533e-10lf)) * z + T(1.1375726970678419e-05lf))
       * z - T(3.968365047179435e-05lf)) * z + T(6.641498215465122e-05lf)) * z - T(1.4638452578843418e-06lf))
       * z - T(0.0002990724803031902lf)) * z + T(0.0007840392217200666lf)) * z - T(0.0008618882909167117lf);
}

// mu - log(1 + mu) without cancellation.
T log1p_defect(T mu) {
  if (mu < T(-0.4lf) || mu > T(0.7lf)) return mu - log_(T(1) + mu);
  const T s = mu / (T(2) + mu), z = s * s;
  T y = T(0);
  [[unroll]] for (int n = 27; n >= 3; n -= 2) y = y * z + T(1) / T(n);
  return mu * s - T(2) * s * z * y;
}
T log_gamma1p(T a) {  // ln Gamma(1 + a), -0.5 <= a <= 1.5
  const T f = a > T(0.5) ? a - T(1) : a;
  if (f == T(0)) return T(0);  // and not -0
  const T y = -log1p_(f * rgamma1p_tail(f));
  return a > T(0.5) ? y + log1p_(f) : y;
}
// x^a e^-x / Gamma(1 + a), a > 0.
T gamma_density(T a, T x) {
  if (a >= T(10)) {
    const T z = T(1) / a, mu = (x - a) / a;
    const T defect = x < T(0.5) * a ? mu - log_(x / a) : log1p_defect(mu);
    return exp_(-a * defect - z * stirling_series(z * z)) * T(0.39894228040143267794lf) / sqrt_(a);
  }
  T f = a, y = T(1);
  for (int i = 0; i < 10 && f > T(0.5); ++i) {
    y *= f;
    f -= T(1);
  }
  return (T(1) + f * rgamma1p_tail(f)) / y * exp_(a * log_(x) - x);
}
// Sum of the series of P / gamma_density.
T gamma_series(T a, T x) {
  T sum = T(1), term = T(1);
  for (int k = 1; k <= 2000; ++k) {
    term *= x / (a + T(k));
    sum += term;
    if (!(term > ROUNDING * sum)) break;
  }
  return sum;
}
// Q / (a gamma_density) by Legendre's continued fraction, x > a (Lentz's evaluation).
T gamma_fraction(T a, T x) {
  T b = x + T(1) - a, c = T(1e30lf), d = T(1) / b, h = d;
  for (int k = 1; k <= 2000; ++k) {
    const T numerator = T(k) * (a - T(k));
    b += T(2);
    d = T(1) / (numerator * d + b);
    c = b + numerator / c;
    h *= d * c;
    if (!(abs(d * c - T(1)) > T(2) * ROUNDING)) break;
  }
  return h;
}
// Q for small a and x, where 1 - P would cancel: 1 - x^a / Gamma(1 + a) (1 + a sum (-x)^n / (n! (a + n))).
T gamma_upper_small(T a, T x) {
  T sum = T(0), term = T(1);
  for (int n = 1; n <= 40; ++n) {
    term *= -x / T(n);
    sum += term / (a + T(n));
    if (!(abs(term) > ROUNDING * abs(sum))) break;
  }
  const T e = a * log_(x) - log_gamma1p(a);
  return -expm1_(e) - a * sum * exp_(e);
}
// Temme's uniform expansion for a > 1000 and x near a.
T gamma_uniform(T a, T x, bool upper) {
  const T mu = (x - a) / a, half_square = log1p_defect(mu);
  const T eta = with_sign(sqrt_(T(2) * half_square), mu), z = T(1) / a;
  const T sum = temme_0(eta) + z * (temme_1(eta) + z * (temme_2(eta) + z * (temme_3(eta) + z * temme_4(eta))));
  const T tail = exp_(-a * half_square) * T(0.39894228040143267794lf) * sum / sqrt_(a);
  const T root = eta * sqrt_(T(0.5) * a);
  return upper ? T(0.5) * erfc_(root) + tail : T(0.5) * erfc_(-root) - tail;
}
// P(a, x), or Q(a, x) = 1 - P(a, x). The smaller one of the two is computed where that matters.
T incomplete_gamma(T a, T x, bool upper) {
  if (a < T(0) || x < T(0)) return T(NAN);
  const T none = upper ? T(1) : T(0), all = T(1) - none;
  if (a == T(0)) return x > T(0) ? all : T(NAN);
  if (x == T(0)) return none;
  if (is_inf(a)) return is_inf(x) ? T(NAN) : none;
  if (is_inf(x)) return all;
  if (is_nan(a) || is_nan(x)) return T(NAN);
  if (a > T(1000) && abs(x - a) < T(0.5) * a) return gamma_uniform(a, x, upper);
  if (x <= T(1.1lf) && a <= T(1.3lf) && (x <= T(0.5) ? a * log_(x) >= T(-0.4lf) : a <= x * T(1.1lf))) {
    const T q = gamma_upper_small(a, x);
    if (upper) return q;
    return q > T(0.9lf) ? gamma_density(a, x) * gamma_series(a, x) : T(1) - q;
  }
  if (x <= a || x <= T(1.1lf)) {
    const T y = gamma_density(a, x) * gamma_series(a, x);
    return upper ? T(1) - y : y;
  }
  const T y = a * gamma_density(a, x) * gamma_fraction(a, x);
  return upper ? y : T(1) - y;
}

T ndtri_p0(T z) {
  return (((T(-59.96335010141079lf) * z + T(98.00107541859997lf)) * z - T(56.67628574690703lf))
       * z + T(13.931260938727968lf)) * z - T(1.2391658386738125lf);
}
T ndtri_q0(T z) {
  return (((((((T(1.0lf) * z + T(1.9544885833814176lf)) * z + T(4.676279128988815lf)) * z + T(86.36024213908905lf))
       * z - T(225.46268785411937lf)) * z + T(200.26021238006066lf)) * z - T(82.03722561683334lf))
       * z + T(15.90562251262117lf)) * z - T(1.1833162112133lf);
}
T ndtri_p1(T z) {
  return (((((((T(4.0554489230596245lf) * z + T(31.525109459989388lf)) * z + T(57.16281922464213lf))
       * z + T(44.08050738932008lf)) * z + T(14.684956192885803lf)) * z + T(2.1866330685079025lf))
       * z - T(0.1402560791713545lf)) * z - T(0.03504246268278482lf)) * z - T(0.0008574567851546854lf);
}
T ndtri_q1(T z) {
  return (((((((T(1.0lf) * z + T(15.779988325646675lf)) * z + T(45.39076351288792lf)) * z + T(41.3172038254672lf))
       * z + T(15.04253856929075lf)) * z + T(2.504649462083094lf)) * z - T(0.14218292285478779lf))
       * z - T(0.03808064076915783lf)) * z - T(0.0009332594808954574lf);
}
T ndtri_p2(T z) {
  return (((((((T(3.2377489177694603lf) * z + T(6.915228890689842lf)) * z + T(3.9388102529247444lf))
       * z + T(1.3330346081580755lf)) * z + T(0.20148538954917908lf)) * z + T(0.012371663481782003lf))
       * z + T(0.00030158155350823543lf)) * z + T(2.6580697468673755e-06lf)) * z + T(6.239745391849833e-09lf);
}
T ndtri_q2(T z) {
  return (((((((T(1.0lf) * z + T(6.02427039364742lf)) * z + T(3.6798356385616087lf)) * z + T(1.3770209948908132lf))
       * z + T(0.21623699359449663lf)) * z + T(0.013420400608854318lf)) * z + T(0.00032801446468212774lf))
       * z + T(2.8924786474538068e-06lf)) * z + T(6.790194080099813e-09lf);
}
T ndtri_central(T c) {  // of c + 1/2, |c| <= 0.3647
  const T z = c * c;
  return (c + c * (z * ndtri_p0(z) / ndtri_q0(z))) * T(2.50662827463100050242lf);
}
T ndtri_(T p) {
  if (p == T(0)) return T(-INF);
  if (p == T(1)) return T(INF);
  if (!(p > T(0) && p < T(1))) return T(NAN);
  const T tail = T(0.13533528323661269189lf);  // e^-2
  const bool is_upper = p > T(1) - tail;
  const T y = is_upper ? T(1) - p : p;
  if (y > tail) return ndtri_central(y - T(0.5));
  const T r = sqrt_(T(-2) * log_(y)), z = T(1) / r;
  const T fit = r < T(8) ? ndtri_p1(z) / ndtri_q1(z) : ndtri_p2(z) / ndtri_q2(z);
  const T x = r - log_(r) / r - z * fit;
  return is_upper ? x : -x;
}
#endif
