#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature float16
#pragma aule feature int16 if T=bfloat16_t
#pragma aule feature bfloat16 if T=bfloat16_t
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
// out = alpha * a @ b + beta * c for 1 to 16 rows of a; float16 and bfloat16 on cooperative matrices in NVIDIA's
// layout.
//
// Bound by reading b, which goes from memory into the matrices without a stop in shared memory. Element e of lane l of
// an operand is row (of b: column) l/4 + 8 * (e/4) and the e%4-th k of l%4; which k and which column those are is free,
// as long as a and b, b and out agree.
// k-major b: a lane loads vec8s, values of k, of rows l/4 + 8i: halves of them for two matrices.
// n-major b: a lane loads WIDE columns of 4 rows, k 4 * (l%4) and on, and pairs them up: its columns go to WIDE / 2
// matrices. The subgroups of a workgroup share k in turn and add up in shared memory. Strides and addresses of a and b
// are multiples of 16 bytes, k of 8 (k-major) or 4 (n-major).
// What was tried, and what it gave: docs/ladders/gemv_coopmat.md
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
layout(constant_id = 0) const bool HAS_C = false;
layout(constant_id = 1) const bool B_MN_MAJOR = false;
layout(constant_id = 2) const int WIDE = 8;  // 8 or 4
layout(local_size_x_id = 3) in;
layout(constant_id = 3) const uint LOCAL = 256;
layout(constant_id = 4) const int ACTIVATION = 0;  // activation_codes.h
layout(constant_id = 5) const bool RESIDUAL = false;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };
#ifdef T_bfloat16_t
const int DTYPE = AULE_DT_BF16;
T low(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).x; }
T high(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).y; }
#else
const int DTYPE = AULE_DT_F16;
T low(uint w) { return unpackFloat2x16(w).x; }
T high(uint w) { return unpackFloat2x16(w).y; }
#endif
#include "matmul/epilogue.glsl"
#define FILL(m, u, w) { m[0] = low(u.x); m[1] = high(u.x); m[2] = low(u.y); m[3] = high(u.y); \
                        m[4] = low(w.x); m[5] = high(w.x); m[6] = low(w.y); m[7] = high(w.y); }
#define MatA coopmat<T, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Vec8b { uvec2 v; };

const uint SUBGROUPS = LOCAL / 32;
const uint MATRICES = !B_MN_MAJOR ? 2 : WIDE / 2, COLUMNS = MATRICES * 16;  // of a workgroup
shared float partial[SUBGROUPS * 256];  // [subgroup][element][lane]

uvec4 load(uint64_t at, bool inside) {
  uvec4 v = uvec4(0);
  if (inside) v = Vec16b(at).v;
  return v;
}
uvec4 load_wide(uint64_t at, bool inside) {
  uvec4 v = uvec4(0);
  if (WIDE == 8) {
    if (inside) v = Vec16b(at).v;
  } else {
    if (inside) v.xy = Vec8b(at).v;
  }
  return v;
}
uvec2 load_half(uint64_t at, bool inside) {
  uvec2 v = uvec2(0);
  if (inside) v = Vec8b(at).v;
  return v;
}
// One column's four k out of four rows' words of two columns.
uvec2 first_of(uvec4 w) { return uvec2(w.x & 0xffffu | w.y << 16, w.z & 0xffffu | w.w << 16); }
uvec2 second_of(uvec4 w) { return uvec2(w.x >> 16 | w.y & 0xffff0000u, w.z >> 16 | w.w & 0xffff0000u); }

void main() {
  const uint tiles_n = (p.n + COLUMNS - 1) / COLUMNS, group = linear_group(), batch = group / tiles_n;
  if (batch >= p.batches) return;  // the whole workgroup leaves
  const uint n0 = group % tiles_n * COLUMNS, lane = gl_SubgroupInvocationID, subgroup = gl_SubgroupID, row = lane / 4;
  uint64_t a_at[2];
  [[unroll]] for (uint i = 0; i < 2; ++i)
    a_at[i] = p.a + uint64_t(int64_t(batch) * p.a_batch + int64_t(min(row + 8 * i, p.m - 1)) * p.a_m) * 2;
  const uint64_t b = p.b + uint64_t(int64_t(batch) * p.b_batch) * 2;
  Acc acc[MATRICES];
  [[unroll]] for (uint j = 0; j < MATRICES; ++j) acc[j] = Acc(0.0);
  if (!B_MN_MAJOR) {
    uint64_t b_at[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) b_at[i] = b + uint64_t(int64_t(min(n0 + row + 8 * i, p.n - 1)) * p.b_n) * 2;
    for (uint k0 = subgroup * 32; k0 < p.k; k0 += 4 * 32 * SUBGROUPS) {
      uvec4 x[4][2], y[4][4];
      [[unroll]] for (uint s = 0; s < 4; ++s) {
        const uint k = k0 + s * 32 * SUBGROUPS + lane % 4 * 8;
        [[unroll]] for (uint i = 0; i < 4; ++i) y[s][i] = load(b_at[i] + uint64_t(k) * 2, k < p.k);
        [[unroll]] for (uint i = 0; i < 2; ++i) x[s][i] = load(a_at[i] + uint64_t(k) * 2, k < p.k);
      }
      [[unroll]] for (uint s = 0; s < 4; ++s) {
        [[unroll]] for (uint h = 0; h < 2; ++h) {
          MatA a;
          const uvec2 u = h == 0 ? x[s][0].xy : x[s][0].zw, w = h == 0 ? x[s][1].xy : x[s][1].zw;
          FILL(a, u, w)
          [[unroll]] for (uint j = 0; j < 2; ++j) {
            MatB m;
            const uvec2 c = h == 0 ? y[s][2 * j].xy : y[s][2 * j].zw, d = h == 0 ? y[s][2 * j + 1].xy :
                y[s][2 * j + 1].zw;
            FILL(m, c, d)
            acc[j] = coopMatMulAdd(a, m, acc[j]);
          }
        }
      }
    }
  } else {
    const uint64_t b_at = b + min(n0 + row * WIDE, p.n - WIDE) * 2, ld = uint64_t(int64_t(p.b_k) * 2);
    for (uint k0 = subgroup * 16; k0 < p.k; k0 += 4 * 16 * SUBGROUPS) {
      uvec4 y[4][4];
      uvec2 x[4][2];
      [[unroll]] for (uint s = 0; s < 4; ++s) {
        const uint k = k0 + s * 16 * SUBGROUPS + lane % 4 * 4;
        [[unroll]] for (uint i = 0; i < 4; ++i) y[s][i] = load_wide(b_at + ld * (k + i), k < p.k);
        [[unroll]] for (uint i = 0; i < 2; ++i) x[s][i] = load_half(a_at[i] + uint64_t(k) * 2, k < p.k);
      }
      [[unroll]] for (uint s = 0; s < 4; ++s) {
        MatA a;
        FILL(a, x[s][0], x[s][1])
        [[unroll]] for (uint j = 0; j < MATRICES; ++j) {
          MatB m;
          const uvec4 w = uvec4(y[s][0][j], y[s][1][j], y[s][2][j], y[s][3][j]);
          const uvec2 c = first_of(w), d = second_of(w);
          FILL(m, c, d)
          acc[j] = coopMatMulAdd(a, m, acc[j]);
        }
      }
    }
  }

  [[unroll]] for (uint j = 0; j < MATRICES; ++j) {
    barrier();  // the sums of the matrix before are read
    [[unroll]] for (uint e = 0; e < 8; ++e) partial[subgroup * 256 + e * 32 + lane] = acc[j][e];
    barrier();  // every subgroup's sums are written
    // An accumulator's element: row l/4 + 8 * (e/4), column 2 * (l%4) + e%2 + 8 * (e/2%2).
    const uint at = gl_LocalInvocationID.x, l = at % 32, e = at / 32;
    const uint m = l / 4 + e / 4 * 8, low_ = l % 4 * 2 + e % 2, high_ = e / 2 % 2;
    const uint n = n0 + (!B_MN_MAJOR ? j * 16 + low_ + high_ * 8 : low_ * WIDE + j * 2 + high_);
    if (at < 256 && m < p.m && n < p.n) {
      float sum = 0.0;
      [[unroll]] for (uint s = 0; s < SUBGROUPS; ++s) sum += partial[s * 256 + at];
      finish(batch, m, n, sum);
    }
  }
}
