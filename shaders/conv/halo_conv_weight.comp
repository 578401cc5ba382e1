#pragma aule axis T float16_t bfloat16_t
#pragma aule params wide
#pragma aule feature cooperative_matrix
#pragma aule feature float16 if T=float16_t
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule inline
// The weight's gradient of a convolution on cooperative matrices: sums[split][o][tap][c] += sum over
// positions of dy[position][o] * x[position + tap][c], all channels-last, sums float32, o and c in whole matrices.
// A workgroup makes BM (o) x BN (c) for TAPS taps of a plane, over a part of the flat positions (flat_positions.glsl).
// A subgroup has WM x WN for each of these taps: a fragment of dy is loaded once for all of them.
// The pixels of x lie in a ring of RING rows in shared memory, so that each is loaded once. A fragment may begin at any
// row, so the first MAT_N rows lie after the last ones too. BUFFERS 2: a step is written while others multiply the one
// before, with one barrier for each step; RING then has room for it.
// SCALED: the operands are float32 ones as halves (half_scale.glsl).
// What was tried, and what it gave: docs/ladders/halo_conv.md
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
layout(constant_id = 0) const int MAT_M = 16;
layout(constant_id = 1) const int MAT_N = 16;  // and the step along k
layout(local_size_x_id = 2) in;
layout(constant_id = 2) const uint LOCAL = 256;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint WM = 32;
layout(constant_id = 6) const uint WN = 16;
layout(constant_id = 7) const uint BK = 32;    // positions of a step
layout(constant_id = 8) const uint TAPS = 9;
layout(constant_id = 9) const uint RING = 192;  // a multiple of BK
layout(constant_id = 10) const uint AHEAD = 128;  // rows that are written before the first step, a multiple of BK
layout(constant_id = 11) const uint BUFFERS = 2;
layout(constant_id = 12) const bool DEEP = false;  // there is a z axis
layout(constant_id = 13) const int PHASES = 0;     // flat_positions.glsl
layout(constant_id = 14) const bool SCALED = false;
#include "common/indexing.glsl"
struct Params {
  uint64_t x, dy, out_, largest;
  uint m, n, x_pixel, dy_pixel;          // o and c in whole matrices; vec8s of a pixel
  uint positions, splits, per_split;     // flat positions, and steps of a part of them
  uint pitch, rows, strips, strip_width, planes, image_planes;
  uint out_size[2];                      // height, width
  int size[3], first[3], mul_z, step_z;  // of x; of the first tap; of planes
  int kernel_depth, kernel_height, kernel_width, tap_column, tap_row;  // taps, and the shifts from one to the next
  uint stride[2], pad[2];                // height, width
  uint tap_groups;                       // groups of TAPS in a plane of taps
  uint by_pitch[2], by_rows[2], by_strips[2], by_planes[2];  // {factor, shift} of exact divisions
};
#include "common/params.glsl"
#include "common/dtype.glsl"
#include "matmul/half_scale.glsl"
#include "conv/division.glsl"
#include "conv/flat_positions.glsl"

#define UN [[unroll]]
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Floats { float v[]; };

const uint A_ROW = BM / 8, B_ROW = BN / 8, A_PITCH = A_ROW + 1, B_PITCH = B_ROW + 1;  // vec8s of a row
const uint A_NEXT = LOCAL / A_ROW, B_NEXT = LOCAL / B_ROW;  // rows between an invocation's loads
const uint A_LOADS = BK / A_NEXT, B_LOADS = BK / B_NEXT;
const uint A_TILE = (RING + MAT_N) * B_PITCH, A_BUFFER = BK * A_PITCH;
const uint FM = WM / MAT_M, FN = WN / MAT_N;
shared uvec4 tiles[A_TILE + BUFFERS * A_BUFFER];

#define MatA coopmat<T, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, MAT_N, MAT_N, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor

uint m0, n0, a_row, a_col, b_row, b_col, end, depth, put_at, from, buffer_, x_from;
uint64_t x, dy;
Phase phase;
uvec4 held_a[A_LOADS], held_b[B_LOADS];
uint shifts[TAPS];
Acc acc[TAPS][FM][FN];

// BK rows of pixels from position + shift `at` on.
#define LOAD_X(at)                                                                                                    \
  UN for (uint i = 0; i < B_LOADS; ++i) {                                                                             \
    uint pixel;                                                                                                       \
    int z;                                                                                                            \
    bool is_inside = pixel_of(at + b_row + i * B_NEXT, phase, pixel, z);                                              \
    if (DEEP) {                                                                                                       \
      is_inside = is_inside && uint(z + int(depth) * p.step_z) < uint(p.size[0]);                                     \
      pixel += uint(int(depth) * p.step_z * p.size[1] * p.size[2]);                                                   \
    }                                                                                                                 \
    held_b[i] = uvec4(0);                                                                                             \
    if (is_inside && x_from < p.x_pixel) held_b[i] = Vec16b(x + uint64_t(pixel * p.x_pixel + x_from) * 16).v;         \
  }
#define LOAD_DY(at)                                                                                                   \
  UN for (uint i = 0; i < A_LOADS; ++i) {                                                                             \
    uint result;                                                                                                      \
    const uint position = at + a_row + i * A_NEXT;                                                                    \
    const bool is_there = result_of(position, phase, result);                                                         \
    held_a[i] = uvec4(0);                                                                                             \
    if (is_there && position < end && m0 / 8 + a_col < p.dy_pixel)                                                    \
      held_a[i] = Vec16b(dy + uint64_t(result * p.dy_pixel + m0 / 8 + a_col) * 16).v;                                 \
  }
// The pixels that are held become the ring's rows from `put_at` on.
#define PUT_X                                                                                                         \
  UN for (uint i = 0; i < B_LOADS; ++i) {                                                                             \
    const uint slot = put_at + b_row + i * B_NEXT;                                                                    \
    tiles[slot * B_PITCH + b_col] = held_b[i];                                                                        \
    if (slot < MAT_N) tiles[(slot + RING) * B_PITCH + b_col] = held_b[i];                                             \
  }                                                                                                                   \
  put_at = put_at + BK == RING ? 0 : put_at + BK;

void multiply_step() {
  UN for (uint s = 0; s < BK; s += MAT_N) {
    MatA a[FM];
    UN for (uint i = 0; i < FM; ++i)
      coopMatLoad(a[i], tiles, A_TILE + buffer_ + s * A_PITCH + (subgroup_m + i * MAT_M) / 8, A_PITCH, COLUMN_MAJOR);
    UN for (uint tap = 0; tap < TAPS; ++tap) {
      uint slot = from + shifts[tap] + s;
      slot = slot >= RING ? slot - RING : slot;
      UN for (uint j = 0; j < FN; ++j) {
        MatB b;
        coopMatLoad(b, tiles, slot * B_PITCH + (subgroup_n + j * MAT_N) / 8, B_PITCH, ROW_MAJOR);
        UN for (uint i = 0; i < FM; ++i) acc[tap][i][j] = coopMatMulAdd(a[i], b, acc[tap][i][j]);
      }
    }
  }
}

void store_result() {
  const uint plane_taps = uint(p.kernel_height * p.kernel_width), taps = plane_taps * uint(p.kernel_depth);
  UN for (uint tap = 0; tap < TAPS; ++tap)
    UN for (uint i = 0; i < FM; ++i)
      UN for (uint j = 0; j < FN; ++j) {
        const uint o = m0 + subgroup_m + i * MAT_M, c = n0 + subgroup_n + j * MAT_N;
        if (o < p.m && c < p.n && first_tap + tap < phase.taps.x * phase.taps.y) {
          const uint line = (first_tap + tap) / phase.taps.x, column = first_tap + tap - line * phase.taps.x;
          const uint at =
              (line * tap_stride.y + phase.tap.y) * uint(p.kernel_width) + column * tap_stride.x + phase.tap.x;
          const uint64_t row = uint64_t(split * p.m + o) * taps + depth * plane_taps + at;
          coopMatStore(acc[tap][i][j], Floats(p.out_ + (row * p.n + c) * 4).v, 0, taps * p.n, ROW_MAJOR);
        }
      }
}

void main() {
  const uint t = gl_LocalInvocationID.x, tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
  const uint groups = p.tap_groups * uint(p.kernel_depth), id = linear_group(), of_split = tiles_m * tiles_n * groups;
  const uint split = id / of_split, group = id % of_split / (tiles_m * tiles_n), tile = id % (tiles_m * tiles_n);
  if (split >= p.splits) return;  // the whole workgroup leaves
  m0 = tile / tiles_n * BM;
  n0 = tile % tiles_n * BN;
  depth = DEEP ? group / p.tap_groups : 0;
  uint first_tap = group % p.tap_groups * TAPS;
  phase = phase_of(0);
  const uvec2 tap_stride = PHASES == 0 ? uvec2(1) : uvec2(p.stride[1], p.stride[0]);
  if (PHASES == 1) {  // the groups of one phase after those of another
    uint rest = group % p.tap_groups;
    [[dont_unroll]] for (uint i = 0; i < phases(); ++i) {
      const Phase one = phase_of(i);
      const uint of_phase = (one.taps.x * one.taps.y + TAPS - 1) / TAPS;
      if (rest < of_phase) {
        phase = one;
        first_tap = rest * TAPS;
      }
      rest = rest < of_phase ? ~0u : rest == ~0u ? rest : rest - of_phase;
    }
  }
  x = p.x;
  dy = p.dy;
  a_row = t / A_ROW;
  a_col = t % A_ROW;
  b_row = t / B_ROW;
  b_col = t % B_ROW;
  x_from = n0 / 8 + b_col;
  const uint subgroup = gl_SubgroupID, subgroup_m = subgroup % (BM / WM) * WM, subgroup_n = subgroup / (BM / WM) * WN;
  const uint begin = split * p.per_split * BK;
  end = min(begin + p.per_split * BK, p.positions);

  uint first_shift = 0;
  UN for (uint i = 0; i < TAPS; ++i) {
    const uint tap = min(first_tap + i, phase.taps.x * phase.taps.y - 1), line = tap / phase.taps.x;
    const uint shift = line * uint(p.tap_row) + (tap - line * phase.taps.x) * uint(p.tap_column);
    if (i == 0) first_shift = shift;
    shifts[i] = shift - first_shift;
  }
  UN for (uint tap = 0; tap < TAPS; ++tap)
    UN for (uint i = 0; i < FM; ++i)
      UN for (uint j = 0; j < FN; ++j) acc[tap][i][j] = Acc(0.0);

  put_at = 0;
  from = 0;
  buffer_ = 0;
  UN for (uint ahead = 0; ahead < AHEAD; ahead += BK) {
    LOAD_X(begin + first_shift + ahead)
    PUT_X
  }
  LOAD_X(begin + first_shift + AHEAD)
  LOAD_DY(begin)
  [[dont_unroll]] for (uint k = begin; k < end; k += BK) {
    if (BUFFERS == 1) barrier();  // the step before is multiplied
    PUT_X
    UN for (uint i = 0; i < A_LOADS; ++i) tiles[A_TILE + buffer_ + (a_row + i * A_NEXT) * A_PITCH + a_col] = held_a[i];
    barrier();  // this step's rows are written
    LOAD_X(k + BK + first_shift + AHEAD)
    LOAD_DY(k + BK)
    multiply_step();
    from = from + BK == RING ? 0 : from + BK;
    if (BUFFERS == 2) buffer_ = A_BUFFER - buffer_;
  }
  if (SCALED) {
    const vec2 scale = half_product_scale(p.largest);
    UN for (uint tap = 0; tap < TAPS; ++tap)
      UN for (uint i = 0; i < FM; ++i)
        UN for (uint j = 0; j < FN; ++j) acc[tap][i][j] = acc[tap][i][j] * scale.x * scale.y;
  }
  store_result();
}
