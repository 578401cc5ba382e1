#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C vec2 dvec2
#pragma aule feature float64 if C=dvec2
// QR iteration of Hessenberg matrices h with Wilkinson's shift, a rotation after the other down the diagonal: h = G h
// G^H, z = z G^H, until h is triangular. state[matrix]: the last row that is not, 0 at the end, and the sweeps it
// has taken. A launch makes at most p.sweeps sweeps or steps up. A workgroup has a matrix, an invocation columns, then
// rows of what a rotation changes. Without vectors only the block that is not triangular is kept right.
// Column-major and dense; h in shared memory where it fits. A NaN compares as 0 and ends its row.
layout(constant_id = 0) const int LOCAL = 32;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HAS_VECTORS = true;
layout(constant_id = 2) const bool IN_SHARED = false;
layout(constant_id = 3) const int ELEMS = 1;
#include "common/indexing.glsl"
#include "linalg/rounded.glsl"

struct Params {
  uint64_t h, z, state;
  uint n, sweeps;
};
#include "common/params.glsl"

shared C tile[ELEMS];
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer StateRef { uint last, taken; };
uint lane;
uint64_t h_start, z_start;

int64_t place(uint i, uint j) { return int64_t(j) * int64_t(p.n) + int64_t(i); }
C at(uint i, uint j) {
  if (IN_SHARED) return tile[j * p.n + i];
  return load_number(h_start, place(i, j));
}
void put(uint i, uint j, C x) {
  if (IN_SHARED) tile[j * p.n + i] = x;
  else store_number(h_start, place(i, j), x);
}
// Orders what the workgroup wrote to h.
void sync() {
  if (IN_SHARED) barrier();
  else controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
}

C square_root(C z) {
  const R size = magnitude(z), large = root((size + abs(z.x)) * R(0.5));
  if (!(large > R(0))) return C(0);
  const R small = abs(z.y) / (large * R(2));
  const C r = z.x >= R(0) ? C(large, small) : C(small, large);
  return z.y < R(0) ? conjugate(r) : r;
}

// The eigenvalue of the last 2 x 2 block that is nearer to its last element.
C shift_at(uint last, uint taken) {
  const C below = at(last, last - 1u), d = at(last, last);
  if (taken % 10u == 9u) return d + from_real(R(0.75) * pivot_size(below));  // out of a cycle
  const C half_gap = (at(last - 1u, last - 1u) - d) * R(0.5), product = mul(at(last - 1u, last), below);
  const C spread = square_root(mul(half_gap, half_gap) + product);
  const C plus = half_gap + spread, minus = half_gap - spread;
  const C divisor = square(minus) > square(plus) ? minus : plus;
  return square(divisor) > R(0) ? d - over(product, divisor) : d;
}

// [c s; -conj(s) c] (x, y) = (r, 0)
struct Rotation {
  R c;
  C s, r;
};
Rotation rotation_of(C x, C y) {
  const R x_size = magnitude(x), y_size = magnitude(y), size = hypotenuse(x_size, y_size);
  if (!(y_size > R(0)) || !(size > R(0))) return Rotation(R(1), C(0), x);
  if (!(x_size > R(0))) return Rotation(R(0), conjugate(y / y_size), from_real(y_size));
  const C phase = x / x_size;
  return Rotation(quotient(x_size, size), mul_conj(y / size, phase), phase * size);
}

void sweep(uint first, uint last, C shift) {
  const uint columns = HAS_VECTORS ? p.n : last + 1u, top = HAS_VECTORS ? 0u : first;
  for (uint k = first; k < last; ++k) {
    const Rotation g = k == first ? rotation_of(at(k, k) - shift, at(k + 1u, k))
                                  : rotation_of(at(k, k - 1u), at(k + 1u, k - 1u));
    if (k == first) sync();  // the rotation's elements are read
    for (uint j = k + lane; j < columns; j += uint(LOCAL)) {
      const C x = at(k, j), y = at(k + 1u, j);
      put(k, j, x * g.c + mul(g.s, y));
      put(k + 1u, j, y * g.c - mul_conj(g.s, x));
    }
    sync();  // rows are rotated
    const uint bottom = min(k + 2u, last);
    for (uint i = top + lane; i <= bottom; i += uint(LOCAL)) {
      const C x = at(i, k), y = at(i, k + 1u);
      put(i, k, x * g.c + mul_conj(g.s, y));
      put(i, k + 1u, y * g.c - mul(g.s, x));
    }
    if (k > first && lane == 0u) {
      put(k, k - 1u, g.r);
      put(k + 1u, k - 1u, C(0));
    }
    if (HAS_VECTORS) {
      for (uint i = lane; i < p.n; i += uint(LOCAL)) {
        const C x = load_number(z_start, place(i, k)), y = load_number(z_start, place(i, k + 1u));
        store_number(z_start, place(i, k), x * g.c + mul_conj(g.s, y));
        store_number(z_start, place(i, k + 1u), y * g.c - mul(g.s, x));
      }
    }
    sync();  // columns are rotated
  }
}

// The first row of the block that ends with row `last`: above it the element beside the diagonal is small, of those
// around it; where noise around zeros does not converge, of the matrix, whose largest element is near 1.
uint block_of(uint last, uint taken) {
  uint first = last;
  for (; first > 0u; --first) {
    const R beside = pivot_size(at(first, first - 1u));
    const R around = pivot_size(at(first - 1u, first - 1u)) + pivot_size(at(first, first));
    if (!(beside > max(EPS * (around > R(0) && taken < 10u ? around : max(around, R(1))), TINY))) break;
  }
  return first;
}

void move_h(bool stores) {
  if (!IN_SHARED) return;
  for (uint e = lane; e < p.n * p.n; e += uint(LOCAL)) {
    if (stores) store_number(h_start, int64_t(e), tile[e]);
    else tile[e] = load_number(h_start, int64_t(e));
  }
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint64_t skipped = uint64_t(linear_group()) * uint64_t(p.n) * uint64_t(p.n) * uint64_t(C_BYTES);
  h_start = p.h + skipped;
  z_start = p.z + skipped;
  StateRef state = StateRef(p.state + uint64_t(linear_group()) * uint64_t(8));
  uint last = state.last, taken = state.taken;
  if (last == 0u) return;  // the same for all of the workgroup
  move_h(false);
  sync();  // h is loaded, and state read
  for (uint s = 0u; s < p.sweeps && last > 0u; ++s) {
    const uint first = block_of(last, taken);
    sync();  // all know the block
    if (first > 0u && lane == 0u) put(first, first - 1u, C(0));
    if (first == last) {
      --last;
      taken = 0u;
    } else {
      sweep(first, last, shift_at(last, taken));
      ++taken;
    }
  }
  move_h(true);
  if (lane == 0u) {
    state.last = last;
    state.taken = taken;
  }
}
