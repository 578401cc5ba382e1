#pragma aule axis MATRIX 0 8 16
#pragma aule feature cooperative_matrix if MATRIX=8
#pragma aule feature cooperative_matrix if MATRIX=16
#pragma aule feature int8 if MATRIX=8
#pragma aule feature int8 if MATRIX=16
#pragma aule feature int_dot_product if MATRIX=0
// out = a @ b, int8 to int32, exact: on cooperative matrices or by dot products of four packed bytes (MATRIX 0).
//
// A workgroup makes BM x BN of out. Steps of BK along k pass through registers into shared memory, where both operands
// are k-major in rows padded by 16 bytes, while the step before is multiplied. An invocation loads units of 16 bytes:
// of one row of a k-major operand, or 4 k by 4 rows of an mn-major one, and transposes their bytes. A_VEC, B_VEC: bytes
// of one load that alignment allows. Bytes past k are zero; rows past m or n are not stored.
// MATRIX 8, 16: a subgroup makes WM x WN by matrices of MAT_M x MAT_K by MAT_K x MAT_N, which start at multiples of so
// many bytes. Results leave straight from the matrices if tiles are whole and out's rows contiguous (STORES_MATRICES),
// else through shared memory.
// MATRIX 0: 256 invocations, each with 4 x 4 results 16 rows and 16 columns apart (BM = BN = 64).
#if MATRIX
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#else
#extension GL_EXT_integer_dot_product : require
#endif
layout(constant_id = 0) const int MAT_M = 16;
layout(constant_id = 1) const int MAT_N = 16;
layout(constant_id = 2) const int MAT_K = 32;
layout(local_size_x_id = 3) in;
layout(constant_id = 3) const uint LOCAL = 256;
layout(constant_id = 4) const uint BM = 64;
layout(constant_id = 5) const uint BN = 64;
layout(constant_id = 6) const uint WM = 64;
layout(constant_id = 7) const uint WN = 64;
layout(constant_id = 8) const uint BK = 64;
layout(constant_id = 9) const bool A_MN_MAJOR = false;
layout(constant_id = 10) const bool B_MN_MAJOR = false;
layout(constant_id = 11) const int A_VEC = 1;   // 16, 4 or 1 along k, 4 or 1 across
layout(constant_id = 12) const int B_VEC = 1;
layout(constant_id = 13) const bool STORES_MATRICES = false;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#define GEMM_PARAMS_MORE
#include "matmul/gemm_params.glsl"
#include "common/params.glsl"
#include "matmul/mainloop.glsl"
#include "matmul/tile_order.glsl"

#define UN [[unroll]]
const uint PITCH = BK + 16;  // of a row in bytes
const uint A_UNITS = BM * BK / 16 / LOCAL, B_UNITS = BN * BK / 16 / LOCAL, BAND = 8;
// Not words: matrices are loaded from aligned addresses.
#if MATRIX == 8
const uint UNIT = 8;
shared uvec2 tiles[(BM + BN) * PITCH / UNIT];
void put16(uint at, uvec4 v) {
  tiles[at / 8] = v.xy;
  tiles[at / 8 + 1] = v.zw;
}
void put4(uint at, uint v) { tiles[at / 8][at / 4 % 2] = v; }
#else
const uint UNIT = 16;
shared uvec4 tiles[(BM + BN) * PITCH / UNIT];
void put16(uint at, uvec4 v) { tiles[at / 16] = v; }
void put4(uint at, uint v) { tiles[at / 16][at / 4 % 4] = v; }
#endif
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };

uint byte_at(uint64_t at) { return uint(U8Ref(at).v); }
// The first `valid` of 16 bytes.
uvec4 load16(uint64_t at, int valid, int vec) {
  uvec4 v = uvec4(0);
  if (vec == 16) {
    if (valid > 0) v = Vec16b(at).v;
  } else if (vec == 4) {
    UN for (int i = 0; i < 4; ++i)
      if (valid > 4 * i) v[i] = U32Ref(at + 4 * i).v;
  } else {
    UN for (int i = 0; i < 16; ++i)
      if (valid > i) v[i / 4] |= byte_at(at + i) << (8 * (i % 4));
  }
  return v;
}
// Likewise of 4.
uint load4(uint64_t at, int valid, int vec) {
  uint v = 0;
  if (vec == 4) {
    if (valid > 0) v = U32Ref(at).v;
  } else {
    UN for (int i = 0; i < 4; ++i)
      if (valid > i) v |= byte_at(at + i) << (8 * i);
  }
  return v;
}
// The row and the k (in words) of unit q of a tile of `rows`.
uint unit_row(uint q, uint rows, bool mn_major) { return !mn_major ? q / (BK / 16) : q / 4 % (rows / 4) * 4; }
uint unit_word(uint q, uint rows, bool mn_major) { return !mn_major ? q % (BK / 16) * 4 : q / rows * 4 + q % 4; }

#define LOAD(held, UNITS, ROWS, MN_MAJOR, VEC, base, row0, end, row_stride, k_stride, start)                           \
  UN for (uint i = 0; i < UNITS; ++i) {                                                                               \
    const uint q = i * LOCAL + t, row = row0 + unit_row(q, ROWS, MN_MAJOR);                                           \
    const uint at_k = start + unit_word(q, ROWS, MN_MAJOR) * 4;                                                       \
    if (!MN_MAJOR) {                                                                                                  \
      const uint64_t at = base + uint64_t(int64_t(min(row, end - 1)) * row_stride + int64_t(at_k) * k_stride);        \
      held[i] = load16(at, int(p.k) - int(at_k), VEC);                                                                \
    } else {                                                                                                          \
      UN for (uint j = 0; j < 4; ++j) {                                                                               \
        const uint64_t at = base + uint64_t(int64_t(row) * row_stride + int64_t(at_k + j) * k_stride);                \
        held[i][j] = load4(at, at_k + j < p.k ? int(end) - int(row) : 0, VEC);                                        \
      }                                                                                                               \
    }                                                                                                                 \
  }
#define PUT(held, UNITS, ROWS, MN_MAJOR, TILE)                                                                         \
  UN for (uint i = 0; i < UNITS; ++i) {                                                                               \
    const uint q = i * LOCAL + t;                                                                                     \
    const uint place = (TILE + unit_row(q, ROWS, MN_MAJOR)) * PITCH + unit_word(q, ROWS, MN_MAJOR) * 4;                \
    const uvec4 w = held[i];                                                                                          \
    if (!MN_MAJOR) {                                                                                                  \
      put16(place, w);                                                                                                \
    } else {                                                                                                          \
      UN for (uint j = 0; j < 4; ++j) {                                                                               \
        const uvec4 bytes = w >> (8 * j) & 0xffu;                                                                     \
        put4(place + j * PITCH, bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24);                              \
      }                                                                                                               \
    }                                                                                                                 \
  }

void store_int(uint row, uint col, int v) {
  if (row < p.m && col < p.n) I32Ref(p.out_ + uint64_t(int64_t(row) * p.out_m + int64_t(col) * p.out_n) * 4).v = v;
}

#if MATRIX
#define MatA coopmat<int8_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define MatB coopmat<int8_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Acc coopmat<int, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Ints { int v[]; };
#define LOAD_A(fragment, i, s)                                                                 \
  coopMatLoad(fragment, tiles, ((row0 + i * MAT_M) * PITCH + s) / UNIT, PITCH / UNIT,          \
      gl_CooperativeMatrixLayoutRowMajor);
#define LOAD_B(fragment, j, s)                                                                 \
  coopMatLoad(fragment, tiles, ((BM + col0 + j * MAT_N) * PITCH + s) / UNIT, PITCH / UNIT,     \
      gl_CooperativeMatrixLayoutColumnMajor);
const uint FM = WM / MAT_M, FN = WN / MAT_N, SUBGROUPS = (BM / WM) * (BN / WN);
shared int fragment_staging[STORES_MATRICES ? 1 : SUBGROUPS * MAT_M * MAT_N];
#else
const uint FM = 4, FN = 4;
#endif

void main() {
  const uint t = gl_LocalInvocationID.x, tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
  const uint tile = linear_group();
  if (tile >= tiles_m * tiles_n) return;  // the whole workgroup leaves
  PLACE_TILE(tile, BAND, BM, BN)
#if MATRIX
  const uint subgroup = gl_SubgroupID, row0 = subgroup % (BM / WM) * WM, col0 = subgroup / (BM / WM) * WN;
  Acc acc[FM][FN];
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) acc[i][j] = Acc(0);
#else
  const uint tx = t % 16, ty = t / 16;
  int acc[FM][FN];
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) acc[i][j] = 0;
#endif
  uvec4 held_a[A_UNITS], held_b[B_UNITS];
#define LOAD_BOTH(start)                                                          \
  LOAD(held_a, A_UNITS, BM, A_MN_MAJOR, A_VEC, p.a, m0, p.m, p.a_m, p.a_k, start) \
  LOAD(held_b, B_UNITS, BN, B_MN_MAJOR, B_VEC, p.b, n0, p.n, p.b_n, p.b_k, start)
  LOAD_BOTH(0)
  [[dont_unroll]] for (uint k = 0; k < p.k; k += BK) {
    PUT(held_a, A_UNITS, BM, A_MN_MAJOR, 0)
    PUT(held_b, B_UNITS, BN, B_MN_MAJOR, BM)
    barrier();  // this step's tiles are written
    LOAD_BOTH(k + BK)
#if MATRIX
    MULTIPLY_STEP(BK, s += MAT_K)
#else
    UN for (uint s = 0; s < BK / 16; ++s) {
      uvec4 x[FM], y[FN];
      UN for (uint i = 0; i < FM; ++i) x[i] = tiles[(ty + 16 * i) * PITCH / UNIT + s];
      UN for (uint j = 0; j < FN; ++j) y[j] = tiles[(BM + tx + 16 * j) * PITCH / UNIT + s];
      UN for (uint i = 0; i < FM; ++i)
        UN for (uint j = 0; j < FN; ++j)
          UN for (uint w = 0; w < 4; ++w) acc[i][j] += dotPacked4x8EXT(int(x[i][w]), int(y[j][w]));
    }
#endif
    barrier();  // the tiles are read before the next step overwrites them
  }

#if MATRIX
  const uint lanes = LOCAL / SUBGROUPS, mine = subgroup * MAT_M * MAT_N;
  UN for (uint i = 0; i < FM; ++i) {
    UN for (uint j = 0; j < FN; ++j) {
      const uint row = m0 + row0 + i * MAT_M, col = n0 + col0 + j * MAT_N;
      if (STORES_MATRICES) {
        coopMatStore(acc[i][j], Ints(p.out_ + (uint64_t(row) * uint(p.out_m) + col) * 4).v, 0, p.out_m,
            gl_CooperativeMatrixLayoutRowMajor);
      } else {
        coopMatStore(acc[i][j], fragment_staging, mine, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
        barrier();  // the staging memory is written
        for (uint q = gl_SubgroupInvocationID; q < MAT_M * MAT_N; q += lanes)
          store_int(row + q / MAT_N, col + q % MAT_N, fragment_staging[mine + q]);
        barrier();  // and read
      }
    }
  }
#else
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) store_int(m0 + ty + 16 * i, n0 + tx + 16 * j, acc[i][j]);
#endif
}
