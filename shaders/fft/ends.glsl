// Loads and stores of a pass: values of a tensor where the transform begins and ends, of a workspace between.
// `n` is the length without the zeros that the chirp's convolution needs. Inverse transforms of real results take the
// first half of a spectrum, and of its element 0, and of the middle one, the real part.
const int LOAD_COMPLEX = 0;
const int LOAD_REAL = 1;       // imaginary parts are 0
const int LOAD_PAIR = 2;       // reals 2 i and 2 i + 1 as one complex number
const int LOAD_HERMITIAN = 3;  // of n values, the rest by symmetry
const int LOAD_HALVES = 4;     // of 2 n values: n values whose transform has pairs of the result
const int STORE_COMPLEX = 0;
const int STORE_REAL = 1;
const int STORE_PAIR = 2;
const int STORE_HALF = 3;  // the first n / 2 + 1

V load_hermitian(uint start, uint i) {
  const bool is_mirrored = 2u * i > p.n;
  const V x = ComplexRef(p.in_).v[start + (is_mirrored ? p.n - i : i) * p.in_step];
  if (i == 0u || 2u * i == p.n) return V(x.x, C(0));
  return is_mirrored ? c_conj(x) : x;
}
// With a = X[i], b = conj(X[n - i]): the values at even places transform to a + b, those at odd ones to
// (a - b) exp(2 pi i / 2n)^i.
V load_halves(uint start, uint i) {
  V a = ComplexRef(p.in_).v[start + i * p.in_step];
  V b = ComplexRef(p.in_).v[start + (p.n - i) * p.in_step];
  if (i == 0u) {
    a.y = C(0);
    b.y = C(0);
  }
  b = c_conj(b);
  const V odd = c_mul(a - b, c_conj(root(p.end_roots, i)));
  return a + b + V(-odd.y, odd.x);
}

#ifdef C_double
C scale_of() { return packDouble2x32(uvec2(p.scale[0], p.scale[1])); }
#else
C scale_of() { return uintBitsToFloat(p.scale[0]); }
#endif

V fetch(uint start, uint i) {
  if (CHIRPS_IN && i >= p.n) return V(0);
  V x;
  if (LOAD == LOAD_REAL) {
    x = V(RealRef(p.in_).v[start + i * p.in_step], C(0));
  } else if (LOAD == LOAD_PAIR) {
    x = V(RealRef(p.in_).v[start + 2u * i * p.in_step], RealRef(p.in_).v[start + (2u * i + 1u) * p.in_step]);
  } else if (LOAD == LOAD_HERMITIAN) {
    x = load_hermitian(start, i);
  } else if (LOAD == LOAD_HALVES) {
    x = load_halves(start, i);
  } else {
    x = ComplexRef(p.in_).v[start + i * p.in_step];
  }
  if (SWAPS_IN) x = x.yx;
  return CHIRPS_IN ? c_mul(x, ComplexRef(p.chirp).v[i]) : x;
}

void put(uint start, uint i, V x) {
  if (CHIRPS_OUT && i >= p.n || STORE == STORE_HALF && 2u * i > p.n) return;
  if (FILTERS) x = c_mul(x, ComplexRef(p.chirp).v[p.n + i]);
  if (SWAPS_OUT) x = x.yx;
  if (CHIRPS_OUT) x = c_mul(x, ComplexRef(p.chirp).v[i]);
  if (SWAPS_END) x = x.yx;
  x *= scale_of();
  if (STORE == STORE_REAL) {
    RealRef(p.out_).v[start + i * p.out_step] = x.x;
  } else if (STORE == STORE_PAIR) {
    RealRef(p.out_).v[start + 2u * i * p.out_step] = x.x;
    RealRef(p.out_).v[start + (2u * i + 1u) * p.out_step] = x.y;
  } else {
    ComplexRef(p.out_).v[start + i * p.out_step] = x;
  }
}
