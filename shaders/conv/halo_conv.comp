#pragma aule axis T float16_t bfloat16_t
#pragma aule axis ORDERED 0 1
#pragma aule params wide
#pragma aule feature cooperative_matrix
#pragma aule feature float16 if T=float16_t
#pragma aule feature float16 if T=bfloat16_t ORDERED=1
#pragma aule feature int16 if T=bfloat16_t ORDERED=1
#pragma aule feature bfloat16 if T=bfloat16_t
#pragma aule feature subgroup_shuffle if ORDERED=1
#pragma aule inline
// Convolution on cooperative matrices: out[position][n] = sum over taps and channels of x * w (+ bias[n]).
// x is channels-last [image][z][y][x][channel], w [n][z][y][x][channel] (TURNED: [channel][z][y][x][n]), out
// [image][z][y][x][n]. A workgroup makes BM flat positions (flat_positions.glsl) x BN columns, a subgroup WM x WN.
// In a section, a CHUNK of channels of the positions and their halo go to shared memory once; a tap is a shift of the
// rows that are multiplied. w goes through shared memory tap by tap, with one or two barriers for each, or (DIRECT)
// from memory to the lanes of NVIDIA's matrices, without. Along z, each tap is sections of its own. PHASES 1: phases
// are sections. 2: each makes its own results. ORDERED: results leave from the lanes of NVIDIA's 16 x 16 matrices
// (docs/design/matmul.md), else through shared memory. PARTS: sections are shared between `splits` workgroups, which
// write float32 sums [split]. SCALED: the operands are float32 ones as halves (half_scale.glsl).
// What was tried, and what it gave: docs/ladders/halo_conv.md
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef T_bfloat16_t
#extension GL_EXT_bfloat16 : require
#endif
#if ORDERED
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
layout(constant_id = 0) const int MAT_M = 16;
layout(constant_id = 1) const int MAT_N = 16;  // and the step along k
layout(local_size_x_id = 2) in;
layout(constant_id = 2) const uint LOCAL = 256;
layout(constant_id = 3) const uint BM = 128;
layout(constant_id = 4) const uint BN = 128;
layout(constant_id = 5) const uint WM = 64;
layout(constant_id = 6) const uint WN = 32;
layout(constant_id = 7) const uint CHUNK = 32;
layout(constant_id = 8) const uint A_LOADS = 4;     // 16-byte loads of an invocation that bring the positions and halo
layout(constant_id = 9) const bool OUT_VEC8 = true; // rows of out are whole vec8s
layout(constant_id = 10) const bool HAS_BIAS = false;
layout(constant_id = 11) const bool DEEP = false;   // there is a z axis
layout(constant_id = 12) const bool PARTS = false;
layout(constant_id = 13) const int PHASES = 0;      // flat_positions.glsl
layout(constant_id = 14) const bool TURNED = false;
layout(constant_id = 15) const uint BUFFERS = 2;    // of w: with one, a further barrier for each tap
// Taps of a plane, which are unrolled; 0: any. Steps (taps, or 16 k of taps if DIRECT) from a load of w to its use.
layout(constant_id = 16) const uint TAP_ROWS = 0;
layout(constant_id = 17) const uint TAP_COLUMNS = 0;
layout(constant_id = 18) const uint DISTANCE = 1;
// If ORDERED: w is [z][y][x][k / 16][n / 16][lane], from memory to the matrices (halo_pack_weight.comp).
layout(constant_id = 19) const bool DIRECT = false;
layout(constant_id = 20) const bool SCALED = false;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
struct Params {
  uint64_t x, w, out_, bias, largest;
  uint m, n, out_ld;                     // flat positions, columns, elements of a row of out
  uint k, pixel, w_pixel, chunks;        // channels, vec8s of a pixel and of w's, chunks of channels
  uint results, splits;                  // rows of out
  uint pitch, rows, strips, strip_width, planes, image_planes;
  uint out_size[2];                      // height, width
  int size[3], first[3], mul_z, step_z;  // of x; of the first tap; of planes
  int kernel_depth, kernel_height, kernel_width, tap_column, tap_row;  // taps, and the shifts from one to the next
  uint stride[2], pad[2];                // height, width
  uint by_pitch[2], by_rows[2], by_strips[2], by_planes[2], by_chunks[2];  // {factor, shift} of exact divisions
};
#include "common/params.glsl"
#include "matmul/mainloop.glsl"
#include "matmul/half_scale.glsl"
#include "conv/division.glsl"
#include "conv/flat_positions.glsl"

#define UN [[unroll]]
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Float4 { vec4 v; };

const uint ROW = CHUNK / 8, PITCH = ROW + 1, NEXT = LOCAL / ROW;  // vec8s of a row; rows between an invocation's loads
const uint HALO = A_LOADS * NEXT, B_TILE = HALO * PITCH;
const uint B_ROW = TURNED ? BN / 8 : ROW, B_ROWS = TURNED ? CHUNK : BN, B_PITCH = B_ROW + 1, B_NEXT = LOCAL / B_ROW;
const uint B_LOADS = B_ROWS < B_NEXT ? 1 : B_ROWS / B_NEXT, B_BUFFER = B_ROWS * B_PITCH;
const uint FM = WM / MAT_M, FN = WN / MAT_N, SUBGROUPS = (BM / WM) * (BN / WN);
#if ORDERED
#include "matmul/transpose4.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Float2 { vec2 v; };
const uint ALL_STAGED = 0;
#ifdef T_bfloat16_t
T low(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).x; }
T high(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).y; }
#else
T low(uint w) { return unpackFloat2x16(w).x; }
T high(uint w) { return unpackFloat2x16(w).y; }
#endif
#else
const uint STAGED = WN / 4 + 1, ALL_STAGED = SUBGROUPS * MAT_M * STAGED;  // a row of float32 results, in vec4s
#endif
const uint OPERANDS = B_TILE + BUFFERS * B_BUFFER;
shared uvec4 tiles[OPERANDS > ALL_STAGED ? OPERANDS : ALL_STAGED];

#define MatA coopmat<T, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, MAT_N, MAT_N, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor
#define LOAD_A(fragment, i, s) coopMatLoad(fragment, tiles, a_from + i * MAT_M * PITCH + s / 8, PITCH, ROW_MAJOR);
#define LOAD_B(fragment, j, s)                                                                               \
  if (TURNED) coopMatLoad(fragment, tiles, b_from + s * B_PITCH + j * MAT_N / 8, B_PITCH, ROW_MAJOR);        \
  else coopMatLoad(fragment, tiles, b_from + j * MAT_N * B_PITCH + s / 8, B_PITCH, COLUMN_MAJOR);
#ifdef T_bfloat16_t
const int DTYPE = AULE_DT_BF16;
#define PACK(pair) (float_to_bf16(pair.x) | float_to_bf16(pair.y) << 16)
#else
const int DTYPE = AULE_DT_F16;
#define PACK(pair) packHalf2x16(pair)
#endif
const int RESULT = PARTS ? AULE_DT_F32 : DTYPE;  // and of the bias

uint m0, n0, row, col, b_row, b_col, w_ld, a_from, b_from, subgroup, subgroup_m, subgroup_n;
uint pixel_vec8s, chunks, plane_taps, of_phase;
Phase phase, loaded;  // of the results or of what is multiplied, and of what is loaded
uint64_t x, w, out_;
uvec4 held_a[A_LOADS], held_b[DISTANCE][B_LOADS];
#if ORDERED
uvec4 held_w[DISTANCE][FN];
#endif
uint section, next, begin, end, buffer_, of_next, of_section;
uint pixel[A_LOADS], w_row[B_LOADS];
int place_z[A_LOADS];
Acc acc[FM][FN];

void begin_loads() {
  UN for (uint i = 0; i < A_LOADS; ++i) {
    uint first;
    int z;
    const bool is_inside = pixel_of(m0 + row + i * NEXT, loaded, first, z);
    pixel[i] = is_inside ? first * pixel_vec8s + col : ~0u;
    if (DEEP) place_z[i] = is_inside ? z : -0x40000000;
  }
}
// Section s: a phase of the source, a plane of taps, and a chunk of channels.
#define SECTION(s)                                                                                                    \
  const uint phase_number = PHASES == 1 ? s / of_phase : 0, in_phase = s - phase_number * of_phase;                   \
  const uint depth = DEEP ? divided(in_phase, p.by_chunks) : 0, from = (in_phase - depth * chunks) * ROW;
#define LOAD_POSITIONS(s)                                                                                             \
  {                                                                                                                   \
    SECTION(s)                                                                                                        \
    if (PHASES == 1 && (in_phase == 0 || s == begin)) {                                                               \
      loaded = phase_of(phase_number);                                                                                \
      begin_loads();                                                                                                  \
    }                                                                                                                 \
    const int z = int(depth) * p.step_z;                                                                              \
    const uint further = from + uint(z * p.size[1] * p.size[2]) * pixel_vec8s;                                        \
    UN for (uint i = 0; i < A_LOADS; ++i) {                                                                           \
      held_a[i] = uvec4(0);                                                                                           \
      const bool is_inside = DEEP ? uint(place_z[i] + z) < uint(p.size[0]) : pixel[i] != ~0u;                         \
      if (is_inside && from + col < pixel_vec8s) held_a[i] = Vec16b(x + uint64_t(pixel[i] + further) * 16).v;         \
    }                                                                                                                 \
  }
#define LOAD_WEIGHTS(slot, s, tap) \
  {                                                                                                                   \
    SECTION(s)                                                                                                        \
    const uint further = (depth * plane_taps + tap) * p.w_pixel + (TURNED ? from * 8 * w_ld : from);                  \
    UN for (uint i = 0; i < B_LOADS; ++i) {                                                                           \
      held_b[slot][i] = uvec4(0);                                                                                     \
      if (TURNED ? from * 8 + b_row + i * B_NEXT < p.k && n0 / 8 + b_col < p.w_pixel                                  \
                 : from + b_col < pixel_vec8s)                                                                        \
        held_b[slot][i] = Vec16b(w + uint64_t(w_row[i] + further) * 16).v;                                            \
    }                                                                                                                 \
  }

#define PUT_WEIGHTS(slot)                                                                                             \
  if (BUFFERS == 1) barrier();  /* the tap before is multiplied */                                                    \
  UN for (uint i = 0; i < B_LOADS; ++i)                                                                               \
    tiles[B_TILE + buffer_ + (b_row + i * B_NEXT) * B_PITCH + b_col] = held_b[slot][i];                               \
  barrier();  /* the tap's weights are written, and the positions */
#define MULTIPLY_TAP(shift)                                                                                           \
  a_from = (subgroup_m + uint(shift)) * PITCH;                                                                        \
  b_from = B_TILE + buffer_ + (TURNED ? subgroup_n / 8 : subgroup_n * B_PITCH);                                       \
  MULTIPLY_STEP(CHUNK, s += MAT_N)                                                                                    \
  if (BUFFERS == 2) buffer_ = B_BUFFER - buffer_;
// The shift of the first tap, if the shifts of others are less.
#define FIRST_SHIFT(step, taps) (step < 0 ? -step * int(taps - 1) : 0)

// A section whose taps only the phase knows.
void multiply_any_taps() {
  if (PHASES == 1) phase = phase_of(section / of_phase);
  const uvec2 tap_step = PHASES == 0 ? uvec2(1, p.kernel_width) : uvec2(p.stride[1], p.stride[0] * p.kernel_width);
  const uint next_tap = loaded.tap.y * uint(p.kernel_width) + loaded.tap.x;
  uint line = phase.tap.y * uint(p.kernel_width) + phase.tap.x, tap = line;
  int line_shift = FIRST_SHIFT(p.tap_row, phase.taps.y);
  [[dont_unroll]] for (uint tap_y = 0; tap_y < phase.taps.y; ++tap_y) {
    int shift = line_shift + FIRST_SHIFT(p.tap_column, phase.taps.x);
    [[dont_unroll]] for (uint tap_x = 0; tap_x < phase.taps.x; ++tap_x) {
      PUT_WEIGHTS(0)
      tap += tap_step.x;
      if (tap_x + 1 == phase.taps.x) tap = line += tap_step.y;
      const bool is_last = tap_x + 1 == phase.taps.x && tap_y + 1 == phase.taps.y;
      const uint of = is_last ? next : section;
      if (is_last) tap = next_tap;
      LOAD_WEIGHTS(0, of, tap)
      MULTIPLY_TAP(shift)
      shift += p.tap_column;
    }
    line_shift += p.tap_row;
  }
}

const uint COLUMNS = TAP_COLUMNS != 0 ? TAP_COLUMNS : 1, TAPS = TAP_ROWS != 0 ? TAP_ROWS * COLUMNS : 1;
#define SHIFT_OF(tap) (first_shift + int((tap) / COLUMNS) * p.tap_row + int((tap) % COLUMNS) * p.tap_column)
void multiply_taps() {
  const int first_shift = FIRST_SHIFT(p.tap_row, TAP_ROWS) + FIRST_SHIFT(p.tap_column, COLUMNS);
  UN for (uint tap = 0; tap < TAPS; ++tap) {
    PUT_WEIGHTS(tap % DISTANCE)
    const uint of = tap + DISTANCE < TAPS ? section : next;
    LOAD_WEIGHTS(tap % DISTANCE, of, (tap + DISTANCE) % TAPS)
    MULTIPLY_TAP(SHIFT_OF(tap))
  }
}

#if ORDERED
const uint STEPS_OF_TAP = CHUNK / 16, STEPS = TAPS * STEPS_OF_TAP;
// Matrices of a step. `from`: of a section's first step.
#define LOAD_MATRICES(slot, from, step)                                                                               \
  UN for (uint j = 0; j < FN; ++j)                                                                                    \
    held_w[slot][j] =                                                                                                 \
        Vec16b(w + (from + (step) / STEPS_OF_TAP * tap_bytes + (step) % STEPS_OF_TAP * k_bytes) + j * 512).v;
#define BYTES_BETWEEN                                                                                                 \
  const uint k_bytes = tiles_n * BN * 32, tap_bytes = k_bytes * chunks * STEPS_OF_TAP;
#define SECTION_BYTES(s) ((DEEP ? divided(s, p.by_chunks) * (plane_taps - 1) * chunks : 0) + s) * STEPS_OF_TAP * k_bytes
void begin_direct() {
  BYTES_BETWEEN
  w += n0 * 32 + subgroup_n * 32 + gl_SubgroupInvocationID * 16;
  of_section = SECTION_BYTES(begin);
  UN for (uint step = 0; step < DISTANCE; ++step) LOAD_MATRICES(step, of_section, step)
}
void multiply_direct() {
  BYTES_BETWEEN
  const int first_shift = FIRST_SHIFT(p.tap_row, TAP_ROWS) + FIRST_SHIFT(p.tap_column, COLUMNS);
  barrier();  // the positions are written
  of_next = SECTION_BYTES(next);
  UN for (uint step = 0; step < STEPS; ++step) {
    a_from = (subgroup_m + uint(SHIFT_OF(step / STEPS_OF_TAP))) * PITCH;
    MatA a[FM];
    UN for (uint i = 0; i < FM; ++i) { LOAD_A(a[i], i, step % STEPS_OF_TAP * 16) }
    UN for (uint j = 0; j < FN; ++j) {
      const uvec4 v = held_w[step % DISTANCE][j];
      MatB b;
      UN for (uint e = 0; e < 4; ++e) {
        b[2 * e] = low(v[e]);
        b[2 * e + 1] = high(v[e]);
      }
      UN for (uint i = 0; i < FM; ++i) acc[i][j] = coopMatMulAdd(a[i], b, acc[i][j]);
    }
    if (step + DISTANCE < STEPS) LOAD_MATRICES(step % DISTANCE, of_section, step + DISTANCE)
    else LOAD_MATRICES(step % DISTANCE, of_next, step + DISTANCE - STEPS)
  }
  of_section = of_next;
}
#endif

#if ORDERED
void store_result() {
  const uint lane = gl_SubgroupInvocationID;
  UN for (uint i = 0; i < FM; ++i) {
    UN for (uint half_ = 0; half_ < 2; ++half_) {
      uint result;
      const bool is_there = result_of(m0 + subgroup_m + i * 16 + half_ * 8 + lane / 4, phase, result);
      UN for (uint j = 0; j < FN; j += 2) {
        const uint column = n0 + subgroup_n + j * 16;
        vec2 v[4];
        UN for (uint q = 0; q < 4; ++q) {
          const uint e = half_ * 4 + q % 2 * 2, own = column + q * 8 + lane % 4 * 2;
          v[q] = q < 2 ? vec2(acc[i][j][e], acc[i][j][e + 1]) : vec2(acc[i][j + 1][e], acc[i][j + 1][e + 1]);
          if (HAS_BIAS)
            v[q] += vec2(load_float(p.bias, min(own, p.n - 1), RESULT),
                load_float(p.bias, min(own + 1, p.n - 1), RESULT));
          const uint64_t at = out_ + (uint64_t(result) * p.out_ld + own) * (PARTS ? 4 : 2);
          if (PARTS && OUT_VEC8) {
            if (is_there && own < p.n) Float2(at).v = v[q];
          } else if (!OUT_VEC8) {
            UN for (uint x = 0; x < 2; ++x)
              if (is_there && own + x < p.n) store_float(at, x, RESULT, v[q][x]);
          }
        }
        if (!PARTS && OUT_VEC8) {
          const uvec4 packed = transpose4(uvec4(PACK(v[0]), PACK(v[1]), PACK(v[2]), PACK(v[3])));
          const uint own = column + lane % 4 * 8;
          if (is_there && own < p.n) Vec16b(out_ + (uint64_t(result) * p.out_ld + own) * 2).v = packed;
        }
      }
    }
  }
}
#else
void store_result() {
  const uint mine = subgroup * MAT_M * STAGED, lanes = LOCAL / SUBGROUPS;
  UN for (uint i = 0; i < FM; ++i) {
    barrier();  // the tiles are read
    UN for (uint j = 0; j < FN; ++j) coopMatStore(acc[i][j], tiles, mine + j * MAT_N / 4, STAGED, ROW_MAJOR);
    barrier();  // results are in shared memory
    for (uint q = gl_SubgroupInvocationID; q < MAT_M * WN / 8; q += lanes) {
      const uint line = q / (WN / 8), part = q % (WN / 8), column = n0 + subgroup_n + part * 8;
      uint result;
      if (result_of(m0 + subgroup_m + i * MAT_M + line, phase, result) && column < p.n) {
        vec4 low = uintBitsToFloat(tiles[mine + line * STAGED + part * 2]);
        vec4 high = uintBitsToFloat(tiles[mine + line * STAGED + part * 2 + 1]);
        const uint64_t at = out_ + (uint64_t(result) * p.out_ld + column) * (PARTS ? 4 : 2);
        UN for (uint e = 0; e < 4; ++e) {
          if (HAS_BIAS) {
            low[e] += load_float(p.bias, min(column + e, p.n - 1), RESULT);
            high[e] += load_float(p.bias, min(column + 4 + e, p.n - 1), RESULT);
          }
        }
        if (PARTS && OUT_VEC8) {
          Float4(at).v = low;
          Float4(at + 16).v = high;
        } else if (OUT_VEC8) {
          Vec16b(at).v = uvec4(PACK(low.xy), PACK(low.zw), PACK(high.xy), PACK(high.zw));
        } else {
          UN for (uint e = 0; e < 8; ++e)
            if (column + e < p.n) store_float(at, e, RESULT, e < 4 ? low[e % 4] : high[e % 4]);
        }
      }
    }
  }
}
#endif

void main() {
  const uint t = gl_LocalInvocationID.x, tiles_n = (p.n + BN - 1) / BN, per_split = (p.m + BM - 1) / BM * tiles_n;
  const uint id = linear_group(), product = id / per_split, tile = id % per_split, split = product % p.splits;
  if (product >= p.splits * (PHASES == 2 ? phases() : 1)) return;  // the whole workgroup leaves
  m0 = tile / tiles_n * BM;
  n0 = tile % tiles_n * BN;
  x = p.x;
  w = p.w;
  out_ = p.out_ + (PARTS ? uint64_t(split) * p.results * p.out_ld * 4 : 0);
  row = t / ROW;
  col = t % ROW;
  b_row = t / B_ROW;
  b_col = t % B_ROW;
  pixel_vec8s = p.pixel;
  chunks = p.chunks;
  subgroup = gl_SubgroupID;
  subgroup_m = subgroup % (BM / WM) * WM;
  subgroup_n = subgroup / (BM / WM) * WN;
  plane_taps = uint(p.kernel_height * p.kernel_width);
  w_ld = p.w_pixel * plane_taps * uint(DEEP ? p.kernel_depth : 1);
  of_phase = chunks * uint(DEEP ? p.kernel_depth : 1);
  const uint sections = of_phase * (PHASES == 1 ? phases() : 1), each = (sections + p.splits - 1) / p.splits;
  begin = PARTS ? min(split * each, sections) : 0;
  end = PARTS ? min(begin + each, sections) : sections;

  phase = loaded = phase_of(PHASES == 2 ? phases() - 1 - product / p.splits : PHASES == 1 ? begin / of_phase : 0);
  if (PHASES != 1) begin_loads();
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) acc[i][j] = Acc(0.0);
#if ORDERED
  if (DIRECT) { begin_direct(); }
#endif
  if (!DIRECT) {
    UN for (uint i = 0; i < B_LOADS; ++i)
      w_row[i] = TURNED ? (b_row + i * B_NEXT) * w_ld + n0 / 8 + b_col
                        : min(n0 + b_row + i * B_NEXT, p.n - 1) * w_ld + b_col;
    const uint first_tap = phase.tap.y * uint(p.kernel_width) + phase.tap.x;
    UN for (uint tap = 0; tap < DISTANCE; ++tap) LOAD_WEIGHTS(tap, begin, (first_tap + tap))
  }
  LOAD_POSITIONS(begin)
  buffer_ = 0;
  [[dont_unroll]] for (section = begin; section < end; ++section) {
    barrier();  // the section before is multiplied
    UN for (uint i = 0; i < A_LOADS; ++i) tiles[(row + i * NEXT) * PITCH + col] = held_a[i];
    next = min(section + 1, end - 1);
    LOAD_POSITIONS(next)
#if ORDERED
    if (DIRECT) { multiply_direct(); } else
#endif
    if (TAP_ROWS != 0) { multiply_taps(); } else { multiply_any_taps(); }
  }
  if (SCALED) {
    const vec2 scale = half_product_scale(p.largest);
    UN for (uint i = 0; i < FM; ++i)
      UN for (uint j = 0; j < FN; ++j) acc[i][j] = acc[i][j] * scale.x * scale.y;
  }
  store_result();
}
