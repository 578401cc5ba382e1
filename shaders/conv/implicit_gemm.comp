#pragma aule axis T float16_t bfloat16_t float
#pragma aule axis MAKES positions weights
#pragma aule params ring
#pragma aule feature cooperative_matrix if T=float16_t
#pragma aule feature cooperative_matrix if T=bfloat16_t
#pragma aule feature float16 if T=float16_t
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule inline
// Convolution as a matrix product whose gathered operand never exists in memory: tiles are read straight from x.
// Everything is channels-last: x [image][z][y][x][channel], one position's channels adjacent, whole 16 bytes per group.
// MAKES positions: out[m][n] = sum over k of X(m, k) * w[n][k] (+ bias[n]); m is (image, z, y, x) of the result, k is
//   (tap, channel): X = x at y * mul + off + tap_y * step, or zero outside (other axes likewise).
//   Forward: mul = stride, off = -padding, step = dilation. Its gradient of the input, from that of the output, at
//   stride 1: off = padding, step = -dilation. With a stride the host asks for every stride-th position at a time.
// MAKES weights: out[m][(tap, channel)] = sum over k of w[k][m] * X(k, (tap, channel)): w is the output's gradient, k
//   its positions, shared between `splits` workgroups; float32 partial sums [split][group][m][n].
// Tile map: gemm_coopmat.comp's. positions: both operands are k-major, an invocation's vec16bs have one tap and channel
// in a step. weights: both are mn-major, and have them for good. 16-bit types: cooperative matrices of any shape, WM x
// WN per subgroup; float32: 16 x 16 invocations with BM / 16 x BN / 16 results each.
// What was tried, and what it gave: docs/ladders/implicit_gemm.md
#ifdef T_float
const uint E = 4;  // elements of a vec16b
#else
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
const uint E = 8;
#endif
layout(constant_id = 0) const int MAT_M = 16;
layout(constant_id = 1) const int MAT_N = 16;  // and the step along k
layout(local_size_x_id = 2) in;
layout(constant_id = 2) const uint LOCAL = 256;
layout(constant_id = 3) const uint BM = 128;
layout(constant_id = 4) const uint BN = 128;
layout(constant_id = 5) const uint WM = 64;
layout(constant_id = 6) const uint WN = 32;
layout(constant_id = 7) const uint BK = 64;
layout(constant_id = 8) const bool OUT_VEC8 = false;  // positions: rows of whole vec16bs
layout(constant_id = 9) const bool HAS_BIAS = false;
layout(constant_id = 10) const bool ONE_TAP = false;    // positions: a step has one tap, for BK divides the channels
layout(constant_id = 11) const bool DEEP = false;       // there is a z axis
// positions: k is shared between `splits` workgroups, which leave float32 sums [split][m][n of all groups].
layout(constant_id = 12) const bool PARTS = false;
layout(constant_id = 13) const bool SCALED = false;  // operands are float32 ones as halves (half_scale.glsl)
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "matmul/half_scale.glsl"
struct Params {
  uint64_t x, w, out_, bias, largest;
  uint m, n, k, channels;                      // channels of x per group
  uint pixel, w_ld, out_ld;                    // elements from a pixel or row to the next
  uint x_group, w_group, out_group, groups, splits;
  uint area, plane, row_width;                 // of the positions: of an image, of a plane, of a row
  int size[3];                                 // of x {depth, height, width}
  int kernel_plane, kernel_width;              // taps
  int mul[3], off[3], step[3];
  uint by_area[2], by_plane[2], by_row_width[2], by_channels[2], by_kernel_plane[2],
      by_kernel_width[2];  // {factor, shift} of exact divisions
};
#include "common/params.glsl"
#include "matmul/mainloop.glsl"

#ifdef T_float
const int DTYPE = AULE_DT_F32;
#elif defined(T_bfloat16_t)
const int DTYPE = AULE_DT_BF16;
#else
const int DTYPE = AULE_DT_F16;
#endif
const uint SIZE = 16 / E;
#define UN [[unroll]]
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };

#ifdef MAKES_positions
const uint A_ROW = BK / E, B_ROW = BK / E, A_ROWS = BM, B_ROWS = BN;  // a tile's vec16bs per row, and rows
#else
const uint A_ROW = BM / E, B_ROW = BN / E, A_ROWS = BK, B_ROWS = BK;
#endif
const uint A_PITCH = A_ROW + 1, B_PITCH = B_ROW + 1, B_TILE = A_ROWS * A_PITCH;
const uint A_LOADS = A_ROWS * A_ROW / LOCAL, B_LOADS = B_ROWS * B_ROW / LOCAL;  // per invocation
const uint A_NEXT = LOCAL / A_ROW, B_NEXT = LOCAL / B_ROW;  // rows between an invocation's vec16bs
shared uvec4 tiles[B_TILE + B_ROWS * B_PITCH];

#ifdef T_float
const uint FM = BM / 16, FN = BN / 16;
vec4 floats(uint at) { return uintBitsToFloat(tiles[at]); }
#define Acc float
#else
const uint FM = WM / MAT_M, FN = WN / MAT_N, SUBGROUPS = (BM / WM) * (BN / WN);
shared float fragment_staging[SUBGROUPS * MAT_M * MAT_N];
#define MatA coopmat<T, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, MAT_N, MAT_N, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#endif

#include "conv/division.glsl"
#include "conv/positions.glsl"

#ifdef MAKES_positions
#define LOAD_A(fragment, i, s) \
  coopMatLoad(fragment, tiles, (subgroup_m + i * MAT_M) * A_PITCH + s / E, A_PITCH, ROW_MAJOR);
#define LOAD_B(fragment, j, s) \
  coopMatLoad(fragment, tiles, B_TILE + (subgroup_n + j * MAT_N) * B_PITCH + s / E, B_PITCH, COLUMN_MAJOR);
#else
#define LOAD_A(fragment, i, s) \
  coopMatLoad(fragment, tiles, s * A_PITCH + (subgroup_m + i * MAT_M) / E, A_PITCH, COLUMN_MAJOR);
#define LOAD_B(fragment, j, s) \
  coopMatLoad(fragment, tiles, B_TILE + s * B_PITCH + (subgroup_n + j * MAT_N) / E, B_PITCH, ROW_MAJOR);
#endif

uint m0, n0, a_col, b_col, a_row, b_row, k_end;
uint64_t x, w, out_;
uvec4 held_a[A_LOADS], held_b[B_LOADS];
Acc acc[FM][FN];

#ifdef MAKES_positions
uint first[A_LOADS], w_row[B_LOADS];  // the offset of first_place in vec16bs, to which a tap's is added, and of w's row
ivec3 first_place[A_LOADS];

void begin_loads() {
  UN for (uint i = 0; i < A_LOADS; ++i) {
    locate(min(m0 + a_row + i * A_NEXT, p.m - 1), first[i], first_place[i]);
    first[i] += offset_of(first_place[i]);
  }
  UN for (uint i = 0; i < B_LOADS; ++i) w_row[i] = min(n0 + b_row + i * B_NEXT, p.n - 1) * (p.w_ld / E);
}
#define LOAD_BOTH(start)                                                                                              \
  {                                                                                                                   \
    const uint at_k = start + a_col * E;                                                                              \
    ivec3 tap;                                                                                                        \
    uint vec16b;                                                                                                      \
    tap_of(min(ONE_TAP ? start : at_k, p.k - 1), tap, vec16b);                                                        \
    if (ONE_TAP) vec16b += a_col;                                                                                  \
    vec16b += offset_of(tap);                                                                                         \
    UN for (uint i = 0; i < A_LOADS; ++i) {                                                                           \
      held_a[i] = uvec4(0);                                                                                           \
      if (inside(first_place[i] + tap) && at_k < k_end)                                                               \
        held_a[i] = Vec16b(x + uint64_t(first[i] + vec16b) * 16).v;                                                   \
    }                                                                                                                 \
    UN for (uint i = 0; i < B_LOADS; ++i) {                                                                           \
      held_b[i] = uvec4(0);                                                                                           \
      if (at_k < k_end) held_b[i] = Vec16b(w + uint64_t(w_row[i] + at_k / E) * 16).v;                                  \
    }                                                                                                                 \
  }
#else
ivec3 tap;
uint vec16b;

void begin_loads() {
  tap_of(min(n0 + b_col * E, p.n - 1), tap, vec16b);
  vec16b += offset_of(tap);
}
#define LOAD_BOTH(start)                                                                                              \
  {                                                                                                                   \
    UN for (uint i = 0; i < A_LOADS; ++i) {                                                                           \
      const uint at_k = start + a_row + i * A_NEXT, col = m0 + a_col * E;                                             \
      held_a[i] = uvec4(0);                                                                                           \
      if (at_k < k_end && col < p.m) held_a[i] = Vec16b(w + (uint64_t(at_k) * p.w_ld + col) * SIZE).v;                 \
    }                                                                                                                 \
    UN for (uint i = 0; i < B_LOADS; ++i) {                                                                           \
      const uint at_k = start + b_row + i * B_NEXT;                                                                   \
      uint image;                                                                                                     \
      ivec3 place;                                                                                                    \
      locate(min(at_k, p.k - 1), image, place);                                                                       \
      held_b[i] = uvec4(0);                                                                                           \
      if (inside(place + tap) && at_k < k_end && n0 + b_col * E < p.n)                                                \
        held_b[i] = Vec16b(x + uint64_t(image + offset_of(place) + vec16b) * 16).v;                                   \
    }                                                                                                                 \
  }
#endif

#ifdef T_float
uint tx, ty;
#ifdef MAKES_positions
#define RESULT_ROW(i) (m0 + ty + 16 * i)
#define RESULT_COLUMN(j) (n0 + tx + 16 * j)
void multiply_step() {
  UN for (uint s = 0; s < BK / 4; ++s) {  // 4 k at a time
    vec4 u[FM], v[FN];
    UN for (uint i = 0; i < FM; ++i) u[i] = floats((ty + 16 * i) * A_PITCH + s);
    UN for (uint j = 0; j < FN; ++j) v[j] = floats(B_TILE + (tx + 16 * j) * B_PITCH + s);
    UN for (uint e = 0; e < 4; ++e)
      UN for (uint i = 0; i < FM; ++i)
        UN for (uint j = 0; j < FN; ++j) acc[i][j] = fma(u[i][e], v[j][e], acc[i][j]);
  }
}
#else
#define RESULT_ROW(i) (m0 + (ty + 16 * (i / 4)) * 4 + i % 4)
#define RESULT_COLUMN(j) (n0 + (tx + 16 * (j / 4)) * 4 + j % 4)
void multiply_step() {
  UN for (uint s = 0; s < BK; ++s) {
    vec4 u[FM / 4], v[FN / 4];
    UN for (uint i = 0; i < FM / 4; ++i) u[i] = floats(s * A_PITCH + ty + 16 * i);
    UN for (uint j = 0; j < FN / 4; ++j) v[j] = floats(B_TILE + s * B_PITCH + tx + 16 * j);
    UN for (uint i = 0; i < FM; ++i)
      UN for (uint j = 0; j < FN; ++j) acc[i][j] = fma(u[i / 4][i % 4], v[j / 4][j % 4], acc[i][j]);
  }
}
#endif

void store_result() {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) store(out_, RESULT_ROW(i), RESULT_COLUMN(j), acc[i][j]);
}
#else
uint subgroup, subgroup_m, subgroup_n;
#ifdef T_bfloat16_t
#define PACK(pair) (float_to_bf16(pair.x) | float_to_bf16(pair.y) << 16)
#else
#define PACK(pair) packHalf2x16(pair)
#endif

void store_result() {
  const uint mine = subgroup * MAT_M * MAT_N, lanes = LOCAL / SUBGROUPS;
  UN for (uint i = 0; i < FM; ++i) {
    UN for (uint j = 0; j < FN; ++j) {
      coopMatStore(acc[i][j], fragment_staging, mine, MAT_N, ROW_MAJOR);
      barrier();  // the staging memory is written
      const uint row0 = m0 + subgroup_m + i * MAT_M, col0 = n0 + subgroup_n + j * MAT_N;
      if (OUT_VEC8) {
        for (uint q = gl_SubgroupInvocationID; q < MAT_M * MAT_N / 8; q += lanes) {
          const uint row = row0 + q / (MAT_N / 8), col = col0 + q % (MAT_N / 8) * 8;
          if (row < p.m && col < p.n) {
            uvec4 v;
            UN for (uint e = 0; e < 4; ++e) {
              vec2 pair = vec2(fragment_staging[mine + q * 8 + 2 * e], fragment_staging[mine + q * 8 + 2 * e + 1]);
              if (HAS_BIAS) pair += vec2(load_float(group_bias, col + 2 * e, DTYPE),
                  load_float(group_bias, col + 2 * e + 1, DTYPE));
              v[e] = PACK(pair);
            }
            Vec16b(out_ + (uint64_t(row) * p.out_ld + col) * 2).v = v;
          }
        }
      } else {
        for (uint q = gl_SubgroupInvocationID; q < MAT_M * MAT_N; q += lanes)
          store(out_, row0 + q / MAT_N, col0 + q % MAT_N, fragment_staging[mine + q]);
      }
      barrier();  // and read
    }
  }
}
#endif

void main() {
  const uint t = gl_LocalInvocationID.x, tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
  const uint id = linear_group(), per_product = tiles_m * tiles_n, product = id / per_product, tile = id % per_product;
  if (product >= p.groups * p.splits) return;  // the whole workgroup leaves
  const uint group = product % p.groups, split = product / p.groups;
  m0 = tile / tiles_n * BM;
  n0 = tile % tiles_n * BN;
  x = p.x + uint64_t(group * p.x_group) * SIZE;
  w = p.w + uint64_t(group) * p.w_group * SIZE;
  group_bias = p.bias + uint64_t(group * p.n) * SIZE;
  a_col = t % A_ROW;
  b_col = t % B_ROW;
  a_row = t / A_ROW;
  b_row = t / B_ROW;

  uint k_begin = 0;
  k_end = p.k;
#ifdef MAKES_positions
  out_ = p.out_ + uint64_t(group * p.out_group) * (PARTS ? 4 : SIZE);
  if (PARTS) {
    out_ += uint64_t(split) * p.m * p.out_ld * 4;
#else
  out_ = p.out_ + uint64_t(product) * p.m * p.n * 4;
  {
#endif
    const uint steps = (p.k + BK - 1) / BK, per_split = (steps + p.splits - 1) / p.splits;
    k_begin = min(split * per_split * BK, p.k);
    k_end = min(k_begin + per_split * BK, p.k);
  }
  begin_loads();

#ifdef T_float
  tx = t % 16;
  ty = t / 16;
#else
  subgroup = gl_SubgroupID;
  subgroup_m = subgroup % (BM / WM) * WM;
  subgroup_n = subgroup / (BM / WM) * WN;
#endif
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) acc[i][j] = Acc(0.0);
  LOAD_BOTH(k_begin)
  [[dont_unroll]] for (uint k = k_begin; k < k_end; k += BK) {
    UN for (uint i = 0; i < A_LOADS; ++i) tiles[(a_row + i * A_NEXT) * A_PITCH + a_col] = held_a[i];
    UN for (uint i = 0; i < B_LOADS; ++i) tiles[B_TILE + (b_row + i * B_NEXT) * B_PITCH + b_col] = held_b[i];
    barrier();  // this step's tiles are written
    LOAD_BOTH(k + BK)
#ifdef T_float
    multiply_step();
#else
    MULTIPLY_STEP(BK, s += MAT_N)
#endif
    barrier();  // the tiles are read before the next step overwrites them
  }
  if (SCALED) {
    const vec2 scale = half_product_scale(p.largest);
    UN for (uint i = 0; i < FM; ++i)
      UN for (uint j = 0; j < FN; ++j) acc[i][j] = acc[i][j] * scale.x * scale.y;
  }
  store_result();
}
