// out[m][n] = sum_k x[m][k] w[n][k] + bias[n] for few rows of x, 1 to 8 at a time: packed rows w of a format
// (formats.def), float32 sums. BY_EXPERT: out[m][s][n] = sum_k x[m][k] w[ids[m][s]][n][k], a pair (m, s) at a time.
// Bound by reading w. COLUMNS columns belong to SLICE neighbours, which take turns with the octets along k: of one
// octet of x, kept in registers, and one of w the products with all rows. An id out of range is reported, its row is 0.
// Rows of x are dense and begin at multiples of 16 bytes.
layout(constant_id = 0) const int FORMAT = 0;
layout(constant_id = 1) const int X_DTYPE = 1;
layout(constant_id = 2) const int OUT_DTYPE = 1;
layout(constant_id = 3) const int ROWS = 1;  // 1, 2, 4 or 8
layout(constant_id = 4) const int COLUMNS = 1;
layout(constant_id = 5) const uint SLICE = 8;  // a power of two, at most LOCAL
layout(constant_id = 6) const bool HAS_BIAS = false;
layout(constant_id = 7) const bool BY_EXPERT = false;
layout(constant_id = 8) const int INDEX_DTYPE = 0;
layout(constant_id = 9) const int SCALES = 0;
layout(constant_id = 10) const int SCALE_DTYPE = 0;
layout(constant_id = 11) const int ZERO_DTYPE = 0;
layout(constant_id = 12) const uint LOCAL = 64;
layout(local_size_x_id = 12) in;
struct Params {
  uint64_t x, weight, out_;
  uint64_t bias;  // of x's dtype
  uint64_t ids;   // contiguous
  uint64_t error;
  uint64_t scales, zeros, outer_scales, code_offset;
  int64_t expert_bytes;
  uint row_bytes;
  uint m, n, k, x_row;  // x_row: elements between rows of x
  uint slots, experts, tag;
  uint scale_row, scale_shifts;
};
#include "common/params.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "quantized/decode.glsl"
#define VEC_ELEMS 8
#include "common/vec8.glsl"

const int SUMS = ROWS * COLUMNS;
shared float partial[SUMS * LOCAL];

void main() {
  const uint per_group = LOCAL / SLICE * COLUMNS;
  const uint tiles_n = (p.n + per_group - 1u) / per_group, group = linear_group();
  const uint tile_m = group / tiles_n, n0 = group % tiles_n * per_group;  // BY_EXPERT: tile_m is the pair
  if (tile_m >= (BY_EXPERT ? p.m * p.slots : (p.m + ROWS - 1u) / ROWS)) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x, column = n0 + t / SLICE * COLUMNS;
  uint64_t weight = p.weight, first_row = uint64_t(0);
  bool is_there = true;
  if (BY_EXPERT) {
    const int64_t id = load_int64(p.ids, uint64_t(tile_m), INDEX_DTYPE);
    is_there = id >= int64_t(0) && id < int64_t(p.experts);
    if (!is_there && n0 == 0u && t == 0u) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, id, p.experts);
    weight += is_there ? uint64_t(id * p.expert_bytes) : uint64_t(0);
    first_row = is_there ? uint64_t(id) * p.n : uint64_t(0);
  }
  const uint m0 = BY_EXPERT ? tile_m / p.slots : tile_m * ROWS;
  const int x_bytes = dtype_bytes(X_DTYPE);

  float sums[SUMS];
  [[unroll]] for (int i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint o = t % SLICE; o < p.k / 8u; o += SLICE) {
    Octet w[COLUMNS];
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      const uint row = min(column + j, p.n - 1u);
      w[j] = octet_of(weight + uint64_t(row) * p.row_bytes, first_row + row, p.k, o);
    }
    [[unroll]] for (int r = 0; r < ROWS; ++r) {
      const uint64_t at = uint64_t(min(m0 + r, p.m - 1u)) * p.x_row + o * 8u;
      const Words words = load_words(p.x + at * uint(x_bytes), x_bytes * 8);
      float x[8], all = 0.0;
      [[unroll]] for (int i = 0; i < 8; ++i) all += x[i] = unpack_float(words, i, X_DTYPE);
      [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
        float sum = 0.0;
        [[unroll]] for (int i = 0; i < 8; ++i) sum += w[j].q[i] * x[i];
        sums[r * COLUMNS + j] += w[j].scale * sum + w[j].offset * all;
      }
    }
  }

  [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * LOCAL + t] = sums[i];
  barrier();  // the sums are written
  for (uint width = SLICE / 2u; width > 0u; width /= 2u) {
    if (t % SLICE < width)
      [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * LOCAL + t] += partial[i * LOCAL + t + width];
    barrier();  // and added
  }
  for (uint i = t; i < LOCAL / SLICE * SUMS; i += LOCAL) {
    const uint which = i / per_group, n = n0 + i % per_group, m = m0 + which;
    if (n >= p.n || m >= p.m) continue;
    const uint mine = i % per_group;
    float y = partial[(which * COLUMNS + mine % COLUMNS) * LOCAL + mine / COLUMNS * SLICE];
    if (HAS_BIAS) y += load_float(p.bias, uint64_t(n), X_DTYPE);
    store_float(p.out_, uint64_t(BY_EXPERT ? tile_m : m) * p.n + n, OUT_DTYPE, is_there ? y : 0.0);
  }
}
