#pragma aule inline
// Transforms of r values v[at], v[at + 1], ... in registers: X[k] = sum of x[t] exp(-2 pi i k t / r). Composite r are
// a x b: b transforms over a values, roots, a transforms over b values. Odd primes above 5 add pairs of values.
void dft2(int i, int j) {
  const V a2 = v[i];
  v[i] = a2 + v[j];
  v[j] = a2 - v[j];
}
void dft3(int i, int j, int l) {
  const V sum3 = v[j] + v[l];
  const V turned3 = over_i(v[j] - v[l]) * K(0.866025403784438646764lf);
  const V mean3 = v[i] - sum3 * K(0.5lf);
  v[i] += sum3;
  v[j] = mean3 + turned3;
  v[l] = mean3 - turned3;
}
void dft4(int i, int j, int l, int m) {
  const V even4 = v[i] + v[l];
  const V odd4 = v[j] + v[m];
  const V rest4 = v[i] - v[l];
  const V turned4 = over_i(v[j] - v[m]);
  v[i] = even4 + odd4;
  v[j] = rest4 + turned4;
  v[l] = even4 - odd4;
  v[m] = rest4 - turned4;
}
void dft5(int i, int j, int l, int m, int q) {
  const V near5 = v[j] + v[q];
  const V far5 = v[l] + v[m];
  const V near_rest5 = over_i(v[j] - v[q]);
  const V far_rest5 = over_i(v[l] - v[m]);
  const V one5 = v[i] + near5 * K(0.309016994374947424102lf) - far5 * K(0.809016994374947424102lf);
  const V two5 = v[i] - near5 * K(0.809016994374947424102lf) + far5 * K(0.309016994374947424102lf);
  const V one_turned5 = near_rest5 * K(0.951056516295153572116lf) + far_rest5 * K(0.587785252292473129169lf);
  const V two_turned5 = near_rest5 * K(0.587785252292473129169lf) - far_rest5 * K(0.951056516295153572116lf);
  v[i] += near5 + far5;
  v[j] = one5 + one_turned5;
  v[l] = two5 + two_turned5;
  v[m] = two5 - two_turned5;
  v[q] = one5 - one_turned5;
}

// (cos, sin) of 2 pi m / prime, m = 1 .. (prime - 1) / 2, of 7, 11 and 13.
const V PRIME_ROOTS[14] = V[14](
  V(K(0.623489801858733531lf), K(0.781831482468029809lf)), V(K(-0.222520933956314404lf), K(0.974927912181823607lf)),
  V(K(-0.900968867902419126lf), K(0.433883739117558120lf)), V(K(0.841253532831181169lf), K(0.540640817455597582lf)),
  V(K(0.415415013001886426lf), K(0.909631995354518371lf)), V(K(-0.142314838273285140lf), K(0.989821441880932732lf)),
  V(K(-0.654860733945285064lf), K(0.755749574354258284lf)), V(K(-0.959492973614497390lf), K(0.281732556841429698lf)),
  V(K(0.885456025653209896lf), K(0.464723172043768546lf)), V(K(0.568064746731155803lf), K(0.822983865893656395lf)),
  V(K(0.120536680255323053lf), K(0.992708874098053993lf)), V(K(-0.354604887042535626lf), K(0.935016242685414823lf)),
  V(K(-0.748510748171101099lf), K(0.663122658240795202lf)),
  V(K(-0.970941817426052027lf), K(0.239315664287557767lf)));
void dft_prime(int prime, int first, int at) {
  V sums[6];
  V rests[6];
  const V zeroth = v[at];
  [[unroll]] for (int t = 1; t <= prime / 2; ++t) {
    sums[t - 1] = v[at + t] + v[at + prime - t];
    rests[t - 1] = over_i(v[at + t] - v[at + prime - t]);
    v[at] += sums[t - 1];
  }
  [[unroll]] for (int k = 1; k <= prime / 2; ++k) {
    V mean = zeroth;
    V turned = V(0);
    [[unroll]] for (int t = 1; t <= prime / 2; ++t) {
      const int turn = k * t % prime;
      const V at_turn = PRIME_ROOTS[first + (2 * turn < prime ? turn : prime - turn) - 1];
      mean += sums[t - 1] * at_turn.x;
      turned += rests[t - 1] * (2 * turn < prime ? at_turn.y : -at_turn.y);
    }
    v[at + k] = mean + turned;
    v[at + prime - k] = mean - turned;
  }
}

// exp(-2 pi i m / r), m = 0 .. (a - 1)(b - 1), of 6 = 2 x 3, 8 = 2 x 4, 9 = 3 x 3, 10 = 2 x 5, 12 = 3 x 4, 16 = 4 x 4.
const V ROOTS[34] = V[34](
  V(K(1.0lf), K(0.0lf)), V(K(0.5lf), K(-0.866025403784438647lf)), V(K(-0.5lf), K(-0.866025403784438647lf)),
  V(K(1.0lf), K(0.0lf)), V(K(0.707106781186547524lf), K(-0.707106781186547524lf)), V(K(0.0lf), K(-1.0lf)),
  V(K(-0.707106781186547524lf), K(-0.707106781186547524lf)), V(K(1.0lf), K(0.0lf)),
  V(K(0.766044443118978035lf), K(-0.642787609686539326lf)), V(K(0.173648177666930349lf), K(-0.984807753012208059lf)),
  V(K(-0.5lf), K(-0.866025403784438647lf)), V(K(-0.939692620785908384lf), K(-0.342020143325668733lf)),
  V(K(1.0lf), K(0.0lf)), V(K(0.809016994374947424lf), K(-0.587785252292473129lf)),
  V(K(0.309016994374947424lf), K(-0.951056516295153572lf)),
  V(K(-0.309016994374947424lf), K(-0.951056516295153572lf)),
  V(K(-0.809016994374947424lf), K(-0.587785252292473129lf)), V(K(1.0lf), K(0.0lf)),
  V(K(0.866025403784438647lf), K(-0.5lf)), V(K(0.5lf), K(-0.866025403784438647lf)), V(K(0.0lf), K(-1.0lf)),
  V(K(-0.5lf), K(-0.866025403784438647lf)), V(K(-0.866025403784438647lf), K(-0.5lf)), V(K(-1.0lf), K(0.0lf)),
  V(K(1.0lf), K(0.0lf)), V(K(0.923879532511286756lf), K(-0.382683432365089772lf)),
  V(K(0.707106781186547524lf), K(-0.707106781186547524lf)), V(K(0.382683432365089772lf), K(-0.923879532511286756lf)),
  V(K(0.0lf), K(-1.0lf)), V(K(-0.382683432365089772lf), K(-0.923879532511286756lf)),
  V(K(-0.707106781186547524lf), K(-0.707106781186547524lf)),
  V(K(-0.923879532511286756lf), K(-0.382683432365089772lf)), V(K(-1.0lf), K(0.0lf)),
  V(K(-0.923879532511286756lf), K(0.382683432365089772lf)));
void by_roots(int a, int b, int first, int at) {
  [[unroll]] for (int k = 1; k < a; ++k)
    [[unroll]] for (int t = 1; t < b; ++t) v[at + b * k + t] = c_mul(v[at + b * k + t], ROOTS[first + k * t]);
}
void reorder(int a, int b, int at) {
  V moved[16];
  [[unroll]] for (int t = 0; t < a * b; ++t) moved[t] = v[at + t];
  [[unroll]] for (int k = 0; k < a; ++k)
    [[unroll]] for (int t = 0; t < b; ++t) v[at + k + a * t] = moved[b * k + t];
}
void dft_composite(int a, int b, int first, int at) {
  [[unroll]] for (int t = 0; t < b; ++t) {
    if (a == 2) dft2(at + t, at + b + t)
    if (a == 3) dft3(at + t, at + b + t, at + 2 * b + t)
    if (a == 4) dft4(at + t, at + b + t, at + 2 * b + t, at + 3 * b + t)
  }
  by_roots(a, b, first, at)
  [[unroll]] for (int k = 0; k < a; ++k) {
    const int row = at + b * k;
    if (b == 3) dft3(row, row + 1, row + 2)
    if (b == 4) dft4(row, row + 1, row + 2, row + 3)
    if (b == 5) dft5(row, row + 1, row + 2, row + 3, row + 4)
  }
  reorder(a, b, at)
}

void dft(int r, int at) {
  if (r == 2) dft2(at, at + 1)
  if (r == 3) dft3(at, at + 1, at + 2)
  if (r == 4) dft4(at, at + 1, at + 2, at + 3)
  if (r == 5) dft5(at, at + 1, at + 2, at + 3, at + 4)
  if (r == 6) dft_composite(2, 3, 0, at)
  if (r == 7) dft_prime(7, 0, at)
  if (r == 8) dft_composite(2, 4, 3, at)
  if (r == 9) dft_composite(3, 3, 7, at)
  if (r == 10) dft_composite(2, 5, 12, at)
  if (r == 11) dft_prime(11, 3, at)
  if (r == 12) dft_composite(3, 4, 17, at)
  if (r == 13) dft_prime(13, 8, at)
  if (r == 16) dft_composite(4, 4, 24, at)
}
