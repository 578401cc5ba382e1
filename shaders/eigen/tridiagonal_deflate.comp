#extension GL_KHR_memory_scope_semantics : require
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Of a merge, z and the poles that have to be moved: eigenvalues of both blocks with a z of roundings stay, and of two
// that are equal but for roundings a rotation makes one stay (LAPACK's laed2, with its tolerance). A workgroup has a
// merge; one invocation goes through the poles in order.
layout(constant_id = 0) const int LOCAL = 256;
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool IN_SHARED = true;
layout(constant_id = 2) const int ELEMS = 1024;
#include "common/dtype.glsl"
#include "eigen/tridiagonal_merge.glsl"

shared R sorted_d[ELEMS];
shared R sorted_z[ELEMS];
shared uint sorted_at[ELEMS];
#include "eigen/all_of.glsl"
uint base;

// In order, where shared memory does not hold them in fields that nobody needs yet.
R d_at(uint i) { return IN_SHARED ? sorted_d[i] : number(BELOW, base + i); }
R z_at(uint i) { return IN_SHARED ? sorted_z[i] : number(ABOVE, base + i); }
uint at_of(uint i) { return IN_SHARED ? sorted_at[i] : place(FIRST, base + i); }
void put_sorted(uint i, R d, R z, uint at) {
  if (IN_SHARED) {
    sorted_d[i] = d;
    sorted_z[i] = z;
    sorted_at[i] = at;
  } else {
    put_number(BELOW, base + i, d);
    put_number(ABOVE, base + i, z);
    put_place(FIRST, base + i, at);
  }
}

struct Rest {
  uint poles, rotations, stay;
};
void keep(inout Rest rest, R d, R z, uint at) {
  put_number(POLE, base + rest.poles, d);
  put_number(Z, base + rest.poles, z);
  put_place(ORDER, base + rest.poles, at);
  ++rest.poles;
}
void let_stay(inout Rest rest, R d, uint at) {  // from the end on
  const uint i = base + p.size - 1u - rest.stay;
  RealRef(p.joined).v[i] = d;
  put_place(ORDER, i, at);
  ++rest.stay;
}

Rest deflate(R rho, R tolerance) {
  Rest rest = Rest(0u, 0u, 0u);
  bool has_last = false;
  R last_d = R(0), last_z = R(0);
  uint last_at = 0u;
  for (uint i = 0u; i < p.size; ++i) {
    R d = d_at(i), z = z_at(i);
    const uint at = at_of(i);
    if (rho * abs(z) <= tolerance) {
      let_stay(rest, d, at);
      continue;
    }
    if (has_last) {
      const R size = hypotenuse(abs(z), abs(last_z)), c = quotient(z, size), s = -quotient(last_z, size);
      const R gap = d - last_d;
      if (abs(gap * c * s) <= tolerance) {
        z = size;
        const R stays = last_d * c * c + d * s * s;
        d = last_d * s * s + d * c * c;
        // Rotations are kept where the poles in order were, which are read by now.
        put_place(FIRST, base + rest.rotations, last_at);
        put_place(SECOND, base + rest.rotations, at);
        put_number(COSINE, base + rest.rotations, c);
        put_number(SINE, base + rest.rotations, s);
        ++rest.rotations;
        let_stay(rest, stays, last_at);
      } else {
        keep(rest, last_d, last_z, last_at);
      }
    }
    has_last = true;
    last_d = d;
    last_z = z;
    last_at = at;
  }
  if (has_last) keep(rest, last_d, last_z, last_at);
  return rest;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, merge = linear_group(), half_ = p.size / 2u;
  base = merge * p.size;
  if (base >= p.total) return;  // the whole workgroup leaves
  const uint batch = base / p.n, cut = base - batch * p.n + half_;
  const R beside = cut < p.real ? finite(RealRef(p.beside).v[batch * (p.real - 1u) + cut - 1u]) : R(0);
  const uint64_t block = uint64_t(half_ * half_ * R_BYTES);
  RealRef upper = RealRef(p.vectors + uint64_t(2u * merge) * block);
  RealRef lower = RealRef(p.vectors + uint64_t(2u * merge + 1u) * block);
  RealRef values = RealRef(p.values + uint64_t(base) * uint64_t(R_BYTES));
  R squares = R(0), most = R(0);
  for (uint i = lane; i < p.size; i += uint(LOCAL)) {
    const R d = values.v[i];
    const R z = i < half_ ? upper.v[i * half_ + half_ - 1u]
                          : lower.v[(i - half_) * half_] * (beside < R(0) ? R(-1) : R(1));
    uint before = 0u;
    for (uint l = 0u; l < p.size; ++l) {
      const R other = values.v[l];
      if (other < d || (other == d && l < i)) ++before;
    }
    put_sorted(before, d, z, i);
    squares += z * z;
    if (d < R(0.5) * FAR) most = max(most, max(abs(d), abs(z)));
  }
  squares = all_of(squares, true);
  most = all_of(most, false);
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                 gl_SemanticsAcquireRelease);
  if (lane > 0u) return;
  // z becomes a vector of length 1.
  const R length_ = squares > R(0) ? root(squares) : R(1), rho = abs(beside) * squares;
  const Rest rest = deflate(abs(beside) * length_, R(8) * EPS * most);
  for (uint i = 0u; i < rest.poles; ++i) put_number(Z, base + i, number(Z, base + i) / length_);
  U32Ref(p.counts + uint64_t(merge) * 8ul).v = rest.poles;
  U32Ref(p.counts + uint64_t(merge) * 8ul + 4ul).v = rest.rotations;
  RealRef(p.rhos).v[merge] = rho;
}
