// Attention without cooperative matrices: operands pass through shared memory in steps, products are made in registers.
//
// LOCAL invocations are TY (y) x LANES (x). An invocation has rows y*ROWS + {0..ROWS-1} of
//   scores  S[BM][BN]: columns x + LANES*{0..COLUMNS-1}, steps of DEPTH elements of both operands' rows
//   result  O[BM][RESULT_COLUMNS]: columns 4*x + 4*LANES*{0..} + {0..3}, steps of STRIP*LANES rows of the second
//           operand. An invocation writes STRIP columns of its scores beside them, transposed.
// Every read of shared memory is 16 bytes without a bank conflict: rows of B end with a gap of 16 bytes, and so do ROWS
// rows of A together. A step passes through registers into the other half of shared memory while the one before it is
// multiplied: one barrier a step. A workgroup makes at most RESULT_COLUMNS columns of the result, and the splits of a
// larger head repeat the scores. Shared memory has float32 for all dtypes: SPIR-V has no product of 16-bit pairs that
// adds in float32, and sums of 16 bits are too coarse.
// What was tried, and what it gave: docs/ladders/flash_attn_fwd_simt.md
#ifndef AULE_ATTENTION_SIMT_GLSL
#define AULE_ATTENTION_SIMT_GLSL
#if SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// Generated kernels (inductor/flex.glsl) bring their own Params, constants and weights. They take the products.
#ifndef ATTENTION_GENERATED
#include "attention/parts/attention.glsl"

// Of the result of one workgroup, a multiple of 4 * LANES.
layout(constant_id = FAMILY_CONSTANTS) const int RESULT_COLUMNS = 64;
layout(constant_id = FAMILY_CONSTANTS + 1) const int SPLITS = 1;    // workgroups per block of rows
layout(constant_id = FAMILY_CONSTANTS + 2) const int ROWS = 4;         // rows of an invocation, a multiple of 4
// All addresses, strides and head sizes allow loads of four.
layout(constant_id = FAMILY_CONSTANTS + 3) const bool VEC4 = false;
layout(constant_id = FAMILY_CONSTANTS + 4) const int LANES = 8;           // invocations of a row
layout(constant_id = FAMILY_CONSTANTS + 5) const int COLUMNS = 4;            // columns of scores of an invocation
layout(constant_id = FAMILY_CONSTANTS + 6) const int DEPTH = 32;       // elements of a step of the scores
layout(constant_id = FAMILY_CONSTANTS + 7) const int STRIP = 4;        // of a step of the result: score columns / LANES
layout(constant_id = FAMILY_CONSTANTS + 8) const int STAGES = 1;       // halves of shared memory
layout(constant_id = FAMILY_CONSTANTS + 9) const int UNROLL_S = 1;     // of a step of the scores, vec4s
layout(constant_id = FAMILY_CONSTANTS + 10) const int UNROLL_O = 1;    // of a step of the result, columns of scores
// dQ: grad_bias is zeroed float32 [B, H, Lq, Lk].
layout(constant_id = FAMILY_CONSTANTS + 11) const bool GRAD_BIAS = false;
#endif

const bool NO_PREFETCH = STAGES == 1;  // one half, and loads go straight there: for software devices
const int TY = LOCAL / LANES, BM = TY * ROWS, BN = LANES * COLUMNS, PER_LANE = RESULT_COLUMNS / LANES;

// In vec4s.
const int D4 = DEPTH / 4, C4 = RESULT_COLUMNS / 4, R4 = ROWS / 4, WIDE = STRIP * LANES;
const int A_ROWS = ROWS * D4 + 1, A_STRIP = BM / 4 + 1, B_ROW = D4 + 1;
const int A_VEC4S = BM * D4, B_VEC4S = BN * D4, STRIP_VEC4S = WIDE * C4;
const int A_HALF = TY * A_ROWS > WIDE * A_STRIP ? TY * A_ROWS : WIDE * A_STRIP;
const int B_HALF = BN * B_ROW > STRIP_VEC4S ? BN * B_ROW : STRIP_VEC4S;
const int A_LOADS = (A_VEC4S + LOCAL - 1) / LOCAL, B_LOADS = (B_VEC4S + LOCAL - 1) / LOCAL;
const int STRIP_LOADS = (STRIP_VEC4S + LOCAL - 1) / LOCAL, MOST_LOADS = B_LOADS > STRIP_LOADS ? B_LOADS : STRIP_LOADS;

shared vec4 tile_a[STAGES * A_HALF];
shared vec4 tile_b[STAGES * B_HALF];

#ifndef ATTENTION_GENERATED
// Dropout's words of the units of the tile of scores: [units, rows and columns as in the tile][cell].
const int UNITS_M = (BM + 31) / 32, UNITS_N = (BN + 31) / 32;
shared uint kept_words[DROPOUT ? UNITS_M * UNITS_N * 32 : 1];
#endif

// Arrays sized by constants pass through functions only inside structs.
struct ScoreTile { float v[ROWS * COLUMNS]; };
struct ResultTile { float v[ROWS * PER_LANE]; };
struct RowFactor { float v[ROWS]; };
// Rows of one head: bytes from row to row, and from page to page if PAGED. Rows from `end` on and elements from `dim`
// on are zeros.
struct Rows { uint64_t base; int64_t step, page; int end, dim; };

#ifndef ATTENTION_GENERATED
// BN columns begin at a multiple of 32 or of BN. The caller has a barrier before it and one behind it.
void draw_kept(Dropout d, int bh, int m0, int n0, bool rows_are_keys) {
  [[dont_unroll]] for (int i = int(gl_LocalInvocationID.x); i < UNITS_M * UNITS_N * 32; i += LOCAL) {
    const uint m = uint(m0 / 32 + i / (UNITS_N * 32)), n = uint(n0 / 32 + i / 32 % UNITS_N);
    kept_words[i] = dropout_word(d, bh, rows_are_keys ? n : m, rows_are_keys ? m : n, uint(i & 31));
  }
}
// Whether a score is kept: m and n count from the tile's start, which is at (m0, n0).
bool is_kept(int m0, int m, int n0, int n, bool rows_are_keys) {
  if (BM % 32 != 0) m += m0 & 31;
  if (BN % 32 != 0) n += n0 & 31;
  const int query = rows_are_keys ? n : m, key = rows_are_keys ? m : n;
  return (kept_words[uint((m / 32 * UNITS_N + n / 32) * 32) + dropout_cell(query, key)] >> dropout_bit(query,
      key) & 1u) != 0u;
}
#endif

// The next step's elements, on their way to shared memory, and the half that they go to.
vec4 next_a[NO_PREFETCH ? 1 : A_LOADS], next_b[NO_PREFETCH ? 1 : MOST_LOADS];
int turn = 0;

#if SHUFFLE
int lane() { return int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID); }
#else
int lane() { return int(gl_LocalInvocationID.x); }
#endif
int ty() { return lane() / LANES; }
int tx() { return lane() % LANES; }

#ifndef ATTENTION_GENERATED
// is_kept() of all of an invocation's scores, read ahead where registers are few.
const int WORD_COLS = 32 / ROWS, KEPT_WORDS = (COLUMNS + WORD_COLS - 1) / WORD_COLS;
struct KeptTile { uint v[KEPT_WORDS]; };
void read_kept(out KeptTile kept, int m0, int n0, bool rows_are_keys) {
  [[unroll]] for (int w = 0; w < KEPT_WORDS; ++w) {
    kept.v[w] = 0u;
    [[dont_unroll]] for (int j = 0; j < min(WORD_COLS, COLUMNS - w * WORD_COLS); ++j)
      [[unroll]] for (int i = 0; i < ROWS; ++i)
        kept.v[w] |= uint(is_kept(m0, ty() * ROWS + i, n0, tx() + LANES * (w * WORD_COLS + j), rows_are_keys))
            << (j * ROWS + i);
  }
}
bool kept_at(KeptTile kept, int i, int j) { return (kept.v[j / WORD_COLS] >> (j % WORD_COLS * ROWS + i) & 1u) != 0u; }
#endif

vec4 load_vec4(uint64_t row, int d, int left) {
  vec4 v = vec4(0.0);
  if (VEC4) {
    const uint64_t at = row + uint64_t(d * ELEM_BYTES);
    if (left > 0) {
      if (DTYPE == AULE_DT_F32) {
        v = F32x4Ref(at).v;
      } else {
        const uvec2 two = unpackUint2x32(PairRef(at).v);
        v = vec4(pair(two.x), pair(two.y));
      }
    }
  } else {
    [[unroll]] for (int i = 0; i < 4; ++i)
      if (i < left) v[i] = load_float(row, uint64_t(d + i), DTYPE);
  }
  return v;
}
vec4 load_a(Rows a, int row, int d) {
  return load_vec4(a.base + uint64_t(int64_t(row) * a.step), d, row < a.end ? a.dim - d : 0);
}
vec4 load_b(Rows b, int row, int d) {
  const int left = row < b.end ? b.dim - d : 0;
#ifndef ATTENTION_GENERATED
  if (PAGED) {
    if (left <= 0) return vec4(0.0);  // it may have no page
    return load_vec4(b.base + uint64_t(int64_t(page_of(row)) * b.page + int64_t(row % PAGE) * b.step), d, left);
  }
#endif
  return load_vec4(b.base + uint64_t(int64_t(row) * b.step), d, left);
}

// Loads elements d to d + DEPTH of BM rows of a and BN rows of b, for put_scores().
void fetch_scores(Rows a, int first_a, Rows b, int first_b, int d) {
  if (NO_PREFETCH) return;
  [[unroll]] for (int n = 0; n < A_LOADS; ++n) {
    const int i = lane() + n * LOCAL;
    if (A_VEC4S % LOCAL == 0 || i < A_VEC4S) next_a[n] = load_a(a, first_a + i / D4, d + i % D4 * 4);
  }
  [[unroll]] for (int n = 0; n < B_LOADS; ++n) {
    const int i = lane() + n * LOCAL;
    if (B_VEC4S % LOCAL == 0 || i < B_VEC4S) next_b[n] = load_b(b, first_b + i / D4, d + i % D4 * 4);
  }
}
void put_scores(Rows a, int first_a, Rows b, int first_b, int d) {
  const int to_a = turn * A_HALF, to_b = turn * B_HALF;
  if (NO_PREFETCH) {
    [[dont_unroll]] for (int i = lane(); i < A_VEC4S; i += LOCAL) tile_a[to_a + i + i / (ROWS * D4)] =
        load_a(a, first_a + i / D4, d + i % D4 * 4);
    [[dont_unroll]] for (int i = lane(); i < B_VEC4S; i += LOCAL) tile_b[to_b + i + i / D4] =
        load_b(b, first_b + i / D4, d + i % D4 * 4);
  } else {
    [[unroll]] for (int n = 0; n < A_LOADS; ++n) {
      const int i = lane() + n * LOCAL;
      if (A_VEC4S % LOCAL == 0 || i < A_VEC4S) tile_a[to_a + i + i / (ROWS * D4)] = next_a[n];
    }
    [[unroll]] for (int n = 0; n < B_LOADS; ++n) {
      const int i = lane() + n * LOCAL;
      if (B_VEC4S % LOCAL == 0 || i < B_VEC4S) tile_b[to_b + i + i / D4] = next_b[n];
    }
  }
}
// Loads RESULT_COLUMNS elements of WIDE rows, for put_strip().
void fetch_strip(Rows b, int first, int column) {
  if (NO_PREFETCH) return;
  [[unroll]] for (int n = 0; n < STRIP_LOADS; ++n) {
    const int i = lane() + n * LOCAL;
    if (STRIP_VEC4S % LOCAL == 0 || i < STRIP_VEC4S) next_b[n] = load_b(b, first + i / C4, column + i % C4 * 4);
  }
}
void put_strip(Rows b, int first, int column) {
  const int to = turn * B_HALF;
  if (NO_PREFETCH) {
    [[dont_unroll]] for (int i = lane(); i < STRIP_VEC4S; i += LOCAL) tile_b[to + i] =
        load_b(b, first + i / C4, column + i % C4 * 4);
  } else {
    [[unroll]] for (int n = 0; n < STRIP_LOADS; ++n) {
      const int i = lane() + n * LOCAL;
      if (STRIP_VEC4S % LOCAL == 0 || i < STRIP_VEC4S) tile_b[to + i] = next_b[n];
    }
  }
}

// s[i][j] = sum_d a[first_a + y*ROWS + i][d] * b[first_b + x + LANES*j][d]. The caller has fetched its first step.
// Fetches the first step of the scores of `then_a` and `then_b`, unless their rows are empty.
void scores(out ScoreTile s, Rows a, int first_a, Rows b, int first_b, Rows then_a, Rows then_b) {
  [[unroll]] for (int i = 0; i < ROWS * COLUMNS; ++i) s.v[i] = 0.0;
  [[dont_unroll]] for (int d = 0; d < a.dim; d += DEPTH) {
    if (STAGES == 1) barrier();  // the only half has been read
    put_scores(a, first_a, b, first_b, d);
    barrier();  // this half is written, the other one has been read
    if (d + DEPTH < a.dim) fetch_scores(a, first_a, b, first_b, d + DEPTH);
    else if (then_a.dim > 0) fetch_scores(then_a, first_a, then_b, first_b, 0);
    const int at_a = turn * A_HALF + ty() * A_ROWS, at_b = turn * B_HALF + tx() * B_ROW;
    [[dont_unroll]] for (int k0 = 0; k0 < D4; k0 += UNROLL_S) {
      [[unroll]] for (int k = 0; k < UNROLL_S; ++k) {
        vec4 y[COLUMNS];
        [[unroll]] for (int j = 0; j < COLUMNS; ++j) y[j] = tile_b[at_b + j * LANES * B_ROW + k0 + k];
        [[unroll]] for (int i = 0; i < ROWS; ++i) {
          const vec4 x = tile_a[at_a + i * D4 + k0 + k];
          [[unroll]] for (int e = 0; e < 4; ++e)
            [[unroll]] for (int j = 0; j < COLUMNS; ++j)
              s.v[i * COLUMNS + j] = fma(x[e], y[j][e], s.v[i * COLUMNS + j]);
        }
      }
    }
    turn ^= STAGES - 1;
  }
}

const int NOTHING = 0, SCORES = 1, STRIPS = 2;
// o[i][..] += sum_n s[y*ROWS + i][n] * b[first + n][column..]. The caller has fetched the first strip of b. Fetches for
// the next product: scores of `then_a` and `then_b` from `then_first_a` and `then_first` on, or strips of `then_b`.
void accumulate(inout ResultTile o, ScoreTile s, Rows b, int first, int column, int then_what, Rows then_a,
    int then_first_a,
                Rows then_b, int then_first) {
  [[dont_unroll]] for (int strip = 0; strip < COLUMNS; strip += STRIP) {
    if (STAGES == 1) barrier();  // the only half has been read
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      if (STRIP == COLUMNS || j / STRIP * STRIP == strip) {  // no register is indexed by a variable
        [[unroll]] for (int h = 0; h < R4; ++h) {
          const int at = 4 * h * COLUMNS + j;
          tile_a[turn * A_HALF + (j % STRIP * LANES + tx()) * A_STRIP + ty() * R4 + h] =
              vec4(s.v[at], s.v[at + COLUMNS], s.v[at + 2 * COLUMNS], s.v[at + 3 * COLUMNS]);
        }
      }
    }
    put_strip(b, first + strip * LANES, column);
    barrier();  // this half is written, the other one has been read
    if (strip + STRIP < COLUMNS) fetch_strip(b, first + (strip + STRIP) * LANES, column);
    else if (then_what == STRIPS) fetch_strip(then_b, then_first, column);
    else if (then_what == SCORES) fetch_scores(then_a, then_first_a, then_b, then_first, 0);
    const int at_a = turn * A_HALF + ty() * R4, at_b = turn * B_HALF + tx();
    [[dont_unroll]] for (int n0 = 0; n0 < WIDE; n0 += UNROLL_O) {
      [[unroll]] for (int n = 0; n < UNROLL_O; ++n) {
        vec4 x[R4];
        [[unroll]] for (int h = 0; h < R4; ++h) x[h] = tile_a[at_a + (n0 + n) * A_STRIP + h];
        [[unroll]] for (int c = 0; c < PER_LANE / 4; ++c) {
          const vec4 y = tile_b[at_b + (n0 + n) * C4 + c * LANES];
          [[unroll]] for (int i = 0; i < ROWS; ++i)
            [[unroll]] for (int e = 0; e < 4; ++e)
              o.v[i * PER_LANE + c * 4 + e] = fma(x[i / 4][i & 3], y[e], o.v[i * PER_LANE + c * 4 + e]);
        }
      }
    }
    turn ^= STAGES - 1;
  }
}

#ifndef ATTENTION_GENERATED
// The beginning of the tile of a row or key, of tiles from `origin` on; `end` where there is no such row.
int tile_from(int at, int origin, int end) { return at < end ? origin + (at - origin) / BN * BN : end; }
// Whether each of these queries sees each of these keys, so that the tile needs no mask. All of them must exist.
bool seen_whole(int first_query, int last_query, int first_key, int last_key) {
  const bool one_block = BLOCK_MASK && bias_row_of(first_query) == bias_row_of(last_query) &&
      bias_column_of(first_key) == bias_column_of(last_key);
  return (BIAS_DTYPE < 0 || one_block) && last_key - first_query - mask_diagonal() <= p.right &&
      first_key - last_query - mask_diagonal() >= -p.left;
}
#endif

// Maximum or sum of each row's values, for every invocation of the row.
#if SHUFFLE
void over_lanes(inout RowFactor x, bool sums, uint mask) {
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const float other = subgroupShuffleXor(x.v[i], mask);
    x.v[i] = sums ? x.v[i] + other : max(x.v[i], other);
  }
}
void over_rows(inout RowFactor x, bool sums) {
  if (LANES > 1) over_lanes(x, sums, 1u);
  if (LANES > 2) over_lanes(x, sums, 2u);
  if (LANES > 4) over_lanes(x, sums, 4u);
  if (LANES > 8) over_lanes(x, sums, 8u);
  if (LANES > 16) over_lanes(x, sums, 16u);
}
#else
shared float partial[BM * LANES];
void over_rows(inout RowFactor x, bool sums) {
  [[unroll]] for (int i = 0; i < ROWS; ++i) partial[(ty() * ROWS + i) * LANES + tx()] = x.v[i];
  barrier();  // all are written; those of the next call come after another barrier
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    x.v[i] = partial[(ty() * ROWS + i) * LANES];
    [[unroll]] for (int j = 1; j < LANES; ++j) {
      const float other = partial[(ty() * ROWS + i) * LANES + j];
      x.v[i] = sums ? x.v[i] + other : max(x.v[i], other);
    }
  }
}
#endif

void store_result(ResultTile acc, uint64_t base, int64_t step, int first, int row_end, int column, int dim,
                  RowFactor factor) {
  [[unroll]] for (int i = 0; i < ROWS; ++i) {
    const int row = first + ty() * ROWS + i;
    const uint64_t at = base + uint64_t(int64_t(row) * step * ELEM_BYTES);
    [[unroll]] for (int c = 0; c < PER_LANE / 4; ++c) {
      const int d = column + 4 * (tx() + c * LANES), from = i * PER_LANE + 4 * c;
      const vec4 v = vec4(acc.v[from], acc.v[from + 1], acc.v[from + 2], acc.v[from + 3]) * factor.v[i];
      if (VEC4) {
        if (row < row_end && d < dim) {
          const uint64_t to = at + uint64_t(d * ELEM_BYTES);
          if (DTYPE == AULE_DT_F32) F32x4Ref(to).v = v;
          else if (DTYPE == AULE_DT_F16) PairRef(to).v = packUint2x32(uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)));
          else PairRef(to).v = packUint2x32(uvec2(float_to_bf16(v.x) | float_to_bf16(v.y) << 16,
              float_to_bf16(v.z) | float_to_bf16(v.w) << 16));
        }
      } else {
        [[unroll]] for (int e = 0; e < 4; ++e)
          if (row < row_end && d + e < dim) store_float(at, uint64_t(d + e), DTYPE, v[e]);
      }
    }
  }
}

#ifndef ATTENTION_GENERATED
// Scores are exponents of 2. With a bias they are exponents of e: a bias may be the lowest number of its dtype, which
// LOG2E would make infinite.
const float UNIT = BIAS_DTYPE >= 0 ? 1.0 : LOG2E;
float power(float x) { return BIAS_DTYPE >= 0 ? exp(x) : exp2(x); }
// One score in that unit, without bias, and its derivative by scale * q k.
float capped(float s, float scale, float softcap, out float slope) {
  slope = 1.0;
  if (!SOFTCAP) return s * scale * UNIT;
  const float t = capped_tanh(s * scale / softcap);
  slope = 1.0 - t * t;
  return softcap * UNIT * t;
}
#endif
#endif
