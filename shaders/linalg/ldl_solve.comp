#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// Solves a x = b in place of b, with the factors of ldl_factor.comp: LAPACK's sytrs and hetrs. An invocation has a
// column of b: it goes down through L and D, with a block's exchange before each, then up through L^T (IS_HERMITIAN:
// L^H).
layout(constant_id = 0) const bool IS_HERMITIAN = false;
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"

struct Params {
  uint64_t a, pivots, x;
  int64_t a_batch, a_row, a_col, pivots_batch, x_batch, x_row, x_col;
  uint n, columns, batches;
};
#include "common/params.glsl"

int64_t a_start, x_start;
uint64_t pivots;

C get(uint i, uint j) { return load_number(p.a, a_start + int64_t(i) * p.a_row + int64_t(j) * p.a_col); }
C get_x(uint i) { return load_number(p.x, x_start + int64_t(i) * p.x_row); }
void put_x(uint i, C value) { store_number(p.x, x_start + int64_t(i) * p.x_row, value); }
C mirrored(C x) { return IS_HERMITIAN ? conjugate(x) : x; }
int pivot_of(uint k) { return I32Ref(pivots + k * 4).v; }
// The place of row k, of a block 1 x 1, or the last one of a block 2 x 2.
void exchange(uint k, int pivot) {
  const uint other = uint(abs(pivot) - 1);
  if (other == k) return;
  const C x = get_x(k);
  put_x(k, get_x(other));
  put_x(other, x);
}

void go_down() {
  for (uint k = 0; k < p.n;) {
    const bool is_pair = pivot_of(k) < 0 && k + 1 < p.n;
    const uint last = is_pair ? k + 1 : k;
    exchange(last, pivot_of(k));
    const C x = get_x(k), y = get_x(last);
    for (uint i = last + 1; i < p.n; ++i) {
      C value = get_x(i) - mul(get(i, k), x);
      if (is_pair) value -= mul(get(i, last), y);
      put_x(i, value);
    }
    if (is_pair) {
      const C below = get(last, k), above = mirrored(below);
      const C top = over(get(k, k), above), bottom = over(get(last, last), below);
      const C u = over(x, above), v = over(y, below), divisor = mul(top, bottom) - from_real(R(1));
      put_x(k, over(mul(bottom, u) - v, divisor));
      put_x(last, over(mul(top, v) - u, divisor));
    } else {
      put_x(k, over(x, get(k, k)));
    }
    k = last + 1;
  }
}

void go_up() {
  for (uint left = p.n; left > 0;) {
    const uint last = left - 1;
    const bool is_pair = pivot_of(last) < 0 && last > 0;
    C x = get_x(last), y = is_pair ? get_x(last - 1) : x;
    for (uint i = left; i < p.n; ++i) {
      const C below = get_x(i);
      x -= mul(mirrored(get(i, last)), below);
      if (is_pair) y -= mul(mirrored(get(i, last - 1)), below);
    }
    put_x(last, x);
    if (is_pair) put_x(last - 1, y);
    exchange(last, pivot_of(last));
    left = is_pair ? last - 1 : last;
  }
}

void main() {
  const uint64_t q = linear_invocation();
  if (q >= uint64_t(p.columns) * p.batches) return;
  const int64_t batch = int64_t(q / p.columns);
  a_start = batch * p.a_batch;
  x_start = batch * p.x_batch + int64_t(q % p.columns) * p.x_col;
  pivots = p.pivots + uint64_t(batch * p.pivots_batch * 4);
  go_down();
  go_up();
}
