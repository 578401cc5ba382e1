// A row in the registers of a workgroup, KEPT vec4 in each invocation, and sums over the workgroup. Include after
// rowwise.glsl. Expects VEC, KEPT (even if VEC is 2 or more), IS_FULL, LOCAL (a power of two) and GROUP (1: tree in
// shared memory, 2: subgroups first).
//
//   VEC 1    vec4 j of invocation l is at (j LOCAL + l) * 4
//   VEC 2    half types, n a multiple of 8: vec4 2 i and 2 i + 1 are one 16-byte access at (i LOCAL + l) * 8
//   VEC 3    half types in rows of any length and start, at 16-byte aligned addresses: like VEC 2, but counted from the
//            16-byte block in which the row begins, skip_of() elements before it. Elements of neighbouring rows in a
//            block are neither used nor written.
// IS_FULL: VEC is not 0 and n is 4 KEPT LOCAL, so no vec4 is past the row's end.
#ifndef AULE_GROUP_GLSL
#define AULE_GROUP_GLSL
#include "common/half.glsl"

const bool PAIRED = VEC >= 2, ANY_START = VEC == 3;
const uint GROUP_ELEMS = LOCAL * 4u * KEPT;  // elements that the workgroup holds at a time

uint vec4_at(int j, uint lane) {
  return PAIRED ? (uint(j >> 1) * LOCAL + lane) * 8u + uint(j & 1) * 4u : (uint(j) * LOCAL + lane) * 4u;
}
uint skip_of(Row r) { return ANY_START ? uint(r.start) & 7u : 0u; }

bool within(uint k, uint n) { return IS_FULL || k < n; }

#ifndef C_double
// Loads vec4s as stored, which takes half the registers for half types, so that a row may be loaded ahead. `first` is
// not 0 for later parts of a row that is too long for the registers.
void fetch_raw(Row r, uint lane, int dt, uint first, out u64vec2 raw[KEPT]) {
  const uint skip = skip_of(r);
  const uint64_t start = r.start - skip;
  [[unroll]] for (int j = 0; j < KEPT; ++j) {
    const uint k = first + vec4_at(j, lane);
    raw[j] = u64vec2(0);
    if (within(k, skip + r.n)) {
      if (dt == AULE_DT_F32) raw[j] = U64x2Ref(r.base + (start + k) * 4).v;
      else if (!PAIRED) raw[j].x = U64Ref(r.base + (start + k) * 2).v;
      else if ((j & 1) == 0) raw[j] = U64x2Ref(r.base + (start + k) * 2).v;
    }
  }
}
void fetch_raw(Row r, uint lane, int dt, out u64vec2 raw[KEPT]) { fetch_raw(r, lane, dt, 0u, raw); }
vec4 unpack4(uint64_t bits, int dt) {
  const uvec2 w = unpackUint2x32(bits);
  if (dt == AULE_DT_F16) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
  return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}
vec4 vec4_of(u64vec2 raw[KEPT], int j, int dt) {
  if (dt == AULE_DT_F32)
    return uintBitsToFloat(uvec4(unpackUint2x32(raw[j].x), unpackUint2x32(raw[j].y)));
  if (!PAIRED) return unpack4(raw[j].x, dt);
  return unpack4((j & 1) == 0 ? raw[j].x : raw[j - 1].y, dt);
}
uint64_t pack4(vec4 x, int dt) {
  if (dt == AULE_DT_F16) return packUint2x32(uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)));
  if (is_nan((x.x + x.y) + (x.z + x.w)))  // a NaN, or opposite infinities: one test for four elements
    return packUint2x32(uvec2(float_to_bf16(x.x) | float_to_bf16(x.y) << 16,
        float_to_bf16(x.z) | float_to_bf16(x.w) << 16));
  uvec4 u = floatBitsToUint(x);
  u += 0x7fffu + ((u >> 16) & 1u);  // nearest even
  return packUint2x32(uvec2(u.x >> 16 | u.y & 0xffff0000u, u.z >> 16 | u.w & 0xffff0000u));
}

// x at k .. k+3, with `fill` outside of skip .. end-1.
vec4 only_inside(vec4 x, uint k, uint skip, uint end, float fill) {
  if (k >= skip && k + 4u <= end) return x;
  [[unroll]] for (uint i = 0u; i < 4u; ++i)
    if (k + i < skip || k + i >= end) x[i] = fill;
  return x;
}
// Blocks inside the row are one access each. The row's first and last elements are stored one by one.
void put_any_start(Row r, uint lane, int dt, uint first, vec4 x[KEPT]) {
  const uint skip = skip_of(r), end = skip + r.n;
  const uint64_t start = r.start - skip;
  const bool whole = dt != AULE_DT_F16 || packs_halves();
  [[unroll]] for (int j = 0; j < KEPT; ++j) {
    const uint k = first + vec4_at(j, lane);
    if (whole && (j & 1) == 0 && k >= skip && k + 8u <= end) {
      U64x2Ref(r.base + (start + k) * 2).v = u64vec2(pack4(x[j], dt), pack4(x[j + 1], dt));
    } else if (whole && (j & 1) == 1 && k >= skip + 4u && k + 4u <= end) {
      continue;  // stored with vec4 j - 1
    } else {
      [[unroll]] for (uint i = 0u; i < 4u; ++i)
        if (k + i >= skip && k + i < end) store_float(r.base, start + k + i, dt, x[j][i]);
    }
  }
}
#endif

void fetch_vec4s(Row r, uint lane, int dt, uint first, C fill, out V4 x[KEPT]) {
#ifndef C_double
  if (VEC != 0) {
    const uint skip = skip_of(r), end = skip + r.n;
    u64vec2 raw[KEPT];
    fetch_raw(r, lane, dt, first, raw);
    [[unroll]] for (int j = 0; j < KEPT; ++j) {
      const uint k = first + vec4_at(j, lane);
      if (ANY_START) x[j] = only_inside(vec4_of(raw, j, dt), k, skip, end, fill);
      else x[j] = within(k, r.n) ? vec4_of(raw, j, dt) : V4(fill);
    }
    return;
  }
#endif
  [[unroll]] for (int j = 0; j < KEPT; ++j) x[j] = fetch(r, first + vec4_at(j, lane), dt, fill);
}
void fetch_vec4s(Row r, uint lane, int dt, C fill, out V4 x[KEPT]) { fetch_vec4s(r, lane, dt, 0u, fill, x); }

void put_vec4s(Row r, uint lane, int dt, uint first, V4 x[KEPT]) {
#ifndef C_double
  if (ANY_START) {
    put_any_start(r, lane, dt, first, x);
    return;
  }
  if (VEC == 2 && dt != AULE_DT_F32 && (dt != AULE_DT_F16 || packs_halves())) {
    [[unroll]] for (int j = 0; j + 1 < KEPT; j += 2) {
      const uint k = first + vec4_at(j, lane);
      if (within(k, r.n)) U64x2Ref(r.base + (r.start + k) * 2).v = u64vec2(pack4(x[j], dt), pack4(x[j + 1], dt));
    }
    return;
  }
  if (VEC != 0) {
    [[unroll]] for (int j = 0; j < KEPT; ++j) {
      const uint k = first + vec4_at(j, lane);
      if (within(k, r.n)) store4(r.base, r.start + k, dt, x[j]);
    }
    return;
  }
#endif
  [[unroll]] for (int j = 0; j < KEPT; ++j) put(r, first + vec4_at(j, lane), dt, x[j]);
}
void put_vec4s(Row r, uint lane, int dt, V4 x[KEPT]) { put_vec4s(r, lane, dt, 0u, x); }

// x at k .. k+3, with 0 past the end of a row of n.
V4 inside(V4 x, uint k, uint n) {
  if (VEC != 0) return within(k, n) ? x : V4(0);
  [[unroll]] for (uint i = 0; i < 4u; ++i)
    if (k + i >= n) x[i] = C(0);
  return x;
}

struct Pair { C a, b; };
Pair more(Pair x, Pair y) { return Pair(x.a + y.a, x.b + y.b); }

// Sums and maxima over the workgroup. All of its invocations call them.
#if GROUP == 2
// Two sets, used in turn: a subgroup that is ahead writes one while others still read the other. The host asks for
// subgroups of 4 or more.
shared C part_a[2][LOCAL / 4 + 1], part_b[2][LOCAL / 4 + 1];
uint turn = 0u;
Pair group_sum(Pair x) {
  x = Pair(subgroupAdd(x.a), subgroupAdd(x.b));
  if (gl_NumSubgroups == 1u) return x;
  turn ^= 1u;
  if (subgroupElect()) {
    part_a[turn][gl_SubgroupID] = x.a;
    part_b[turn][gl_SubgroupID] = x.b;
  }
  barrier();  // all parts written
  Pair t = Pair(C(0), C(0));
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
    t = more(t, Pair(part_a[turn][i], part_b[turn][i]));
  return Pair(subgroupAdd(t.a), subgroupAdd(t.b));
}
C group_max(C x) {
  x = subgroupMax(x);
  if (gl_NumSubgroups == 1u) return x;
  turn ^= 1u;
  if (subgroupElect()) part_a[turn][gl_SubgroupID] = x;
  barrier();  // all parts written
  C t = part_a[turn][0];
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) t = max(t, part_a[turn][i]);
  return subgroupMax(t);
}
#else
shared C tree_a[LOCAL], tree_b[LOCAL];
Pair group_sum(Pair x) {
  const uint lane = gl_LocalInvocationID.x;
  barrier();  // the previous call's sums are read before they are overwritten
  tree_a[lane] = x.a;
  tree_b[lane] = x.b;
  barrier();  // all of the tree written
  for (uint h = LOCAL / 2; h > 0u; h /= 2) {
    if (lane < h) {
      tree_a[lane] += tree_a[lane + h];
      tree_b[lane] += tree_b[lane + h];
    }
    barrier();  // this level done
  }
  return Pair(tree_a[0], tree_b[0]);
}
C group_max(C x) {
  const uint lane = gl_LocalInvocationID.x;
  barrier();  // the previous call's sums are read before they are overwritten
  tree_a[lane] = x;
  barrier();  // all of the tree written
  for (uint h = LOCAL / 2; h > 0u; h /= 2) {
    if (lane < h) tree_a[lane] = max(tree_a[lane], tree_a[lane + h]);
    barrier();  // this level done
  }
  return tree_a[0];
}
#endif
#endif
