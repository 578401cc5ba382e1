#pragma aule axis DOT 0 1
#pragma aule feature int_dot_product if DOT=1
// out[m][n] = sum_k x[m][k] w[n][k] + bias[n] for few rows of x, 1 to 8 at a time: packed rows w of a format
// (formats.def), float32 sums. BY_EXPERT: out[m][s][n] = sum_k x[m][k] w[ids[m][s]][n][k], a pair (m, s) at a time.
// ACTIVATION and RESIDUAL as in gemv_norm.comp: a gate and a residual behind the product.
//
// DOT 1: by dot products of integers, four at once, for x of 16 bits and formats of integers. Eight neighbours of x are
// integers of 15 bits times a scale, so that each is off by at most 2^-15 of the largest. Each is 128 * high + low, two
// signed bytes, and products and sums of an octet are exact. The workgroup makes these integers of CHUNK octets at a
// time, in shared memory.
// Bound by reading w. COLUMNS columns belong to SLICE neighbours, which take turns with the spans along k. An id out of
// range is reported, its row is 0.
// Rows of x are dense and begin at multiples of 16 bytes. What was tried: docs/ladders/gemv_quantized.md.
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
layout(constant_id = 13) const int SPAN = 1;   // octets that an invocation decodes at once
layout(constant_id = 14) const int ALIGN = 4;  // bytes, at multiples of which rows of w begin
layout(constant_id = 15) const bool ONE_SCALE = false;
layout(constant_id = 16) const int ACTIVATION = 0;  // activation_codes.h; none: no gate
layout(constant_id = 17) const bool RESIDUAL = false;
layout(local_size_x_id = 12) in;
#if DOT
#extension GL_EXT_integer_dot_product : require
#define OCTET_BYTES
#endif
// 128 bytes, which every device takes as push constants: what experts need shares its place with what they never have.
struct Params {
  uint64_t x, weight, out_;
  uint64_t bias;         // of x's dtype
  uint64_t ids;          // contiguous
  uint64_t error;
  uint64_t scales, zeros, outer_scales, code_offset;
  int64_t expert_bytes_or_residual;
  uint row_bytes;
  uint m, n, k, x_row;  // n of out; x_row: elements between rows of x
  uint slots, experts, tag;
  uint scale_row, scale_shifts;
};
const bool EACH = false;
#include "common/params.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "quantized/decode.glsl"
#define VEC_ELEMS 8
#include "common/vec8.glsl"
#include "matmul/activation.glsl"

const bool GATED = ACTIVATION != 0;
const int OUTS = GATED ? COLUMNS / 2 : COLUMNS;  // values of out of a slice
const int SUMS = ROWS * COLUMNS;
shared float partial[SUMS * LOCAL];

#if DOT
const uint CHUNK = 512u / ROWS;       // octets of a row of x
const float kMost = 127.0 * 128.0;    // of an integer
const float kRounds = 12582912.0;     // 1.5 * 2^23: its sum with a number is that one rounded, in the lowest bits
shared uvec4 x_bytes[ROWS * CHUNK];   // of an octet: the high bytes, then the low ones
shared vec2 x_scales[ROWS * CHUNK];   // {scale, the sum of the integers}
// Bytes are in the order in which decoders leave those of w.
const bool ALTERNATE = FORMAT == kFormat_int4 || FORMAT == kFormat_int4_offset;
uint four_bytes(ivec4 x) { return uint(x.x & 255 | (x.y & 255) << 8 | (x.z & 255) << 16 | x.w << 24); }

// Octet `octet` of a row of x into place `at`. One with a number that is not finite makes all sums NaN.
void stage_octet(uint64_t row, uint octet, uint at) {
  const int bytes = dtype_bytes(X_DTYPE) * 8;
  const Words words = load_words(row + uint64_t(octet) * uint(bytes), bytes);
  float x[8], most = 0.0;
  bool is_finite = true;
  [[unroll]] for (int i = 0; i < 8; ++i) {
    x[i] = unpack_float(words, i, X_DTYPE);
    is_finite = is_finite && (floatBitsToUint(x[i]) & 0x7f800000u) != 0x7f800000u;
    most = max(most, abs(x[i]));
  }
  // Numbers below 1e-30 count as 0: their reciprocal may not be finite.
  const float reciprocal = most > 1e-30 ? kMost / most : 0.0;
  ivec4 high[2], low[2];
  int sum = 0;
  [[unroll]] for (int i = 0; i < 8; ++i) {
    const int q = floatBitsToInt(x[i] * reciprocal + kRounds) - floatBitsToInt(kRounds), h = q + 64 >> 7;
    const int half_ = ALTERNATE ? i & 1 : i >> 2, place = ALTERNATE ? i >> 1 : i & 3;
    sum += q;
    high[half_][place] = h;
    low[half_][place] = q - h * 128;
  }
  x_bytes[at] = uvec4(four_bytes(high[0]), four_bytes(high[1]), four_bytes(low[0]), four_bytes(low[1]));
  x_scales[at] = vec2(is_finite ? most / kMost : uintBitsToFloat(0x7fc00000u), float(sum));
}
float dot_octet(Octet w, uvec4 x, vec2 scale) {
  const ivec2 q = ivec2(w.q);
  const int high = dotPacked4x8EXT(q.x, int(x.x)) + dotPacked4x8EXT(q.y, int(x.y));
  const int low = dotPacked4x8EXT(q.x, int(x.z)) + dotPacked4x8EXT(q.y, int(x.w));
  const float sum = float(high * 128 + low);  // below 2^24
  return scale.x * (w.scale * (sum - centre_of(w) * scale.y) + w.offset * scale.y);
}
#else
// Octet `octet` of a row of x as x[at] and further, and its sum.
void load_octet(uint64_t row, uint octet, int at, inout float x[8 * kMostOctets], out float all) {
  const int bytes = dtype_bytes(X_DTYPE) * 8;
  const Words words = load_words(row + uint64_t(octet) * uint(bytes), bytes);
  all = 0.0;
  [[unroll]] for (int i = 0; i < 8; ++i) all += x[at + i] = unpack_float(words, i, X_DTYPE);
}
float dot_octet(Octet w, float x[8 * kMostOctets], int at, float all) {
  float sum = 0.0;
  [[unroll]] for (int i = 0; i < 8; ++i) sum += w.q[i] * x[at + i];
  return w.scale * w.unit * sum + (w.offset - w.scale * (w.unit * w.one + w.zero)) * all;
}
#endif

uint64_t row_of_x(uint row) {
  return p.x + uint64_t(min(row, p.m - 1u)) * p.x_row * uint(dtype_bytes(X_DTYPE));
}

#if DOT
// Adds the products of this invocation's spans of its columns to its sums.
void multiply(Row w_row[COLUMNS], uint m0, inout float sums[SUMS]) {
  const uint t = gl_LocalInvocationID.x;
  for (uint first = 0u; first < p.k / 8u; first += CHUNK) {
    const uint octets = min(CHUNK, p.k / 8u - first);
    barrier();  // those before have been read
    for (uint i = t; i < ROWS * octets; i += LOCAL)
      stage_octet(row_of_x(m0 + i / octets), first + i % octets, i / octets * CHUNK + i % octets);
    barrier();  // these are written
    for (uint u = first / SPAN + t % SLICE; u < (first + octets) / SPAN; u += SLICE) {
      const uint here = first_octet(u) - first;
      Span w[COLUMNS];
      [[unroll]] for (int j = 0; j < COLUMNS; ++j) span_of(w_row[j], u, w[j]);
      [[unroll]] for (int i = 0; i < SPAN; ++i) {
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
          const uint at = r * CHUNK + here + next_octet(i);
          const uvec4 x = x_bytes[at];
          const vec2 scale = x_scales[at];
          [[unroll]] for (int j = 0; j < COLUMNS; ++j) sums[r * COLUMNS + j] += dot_octet(w[j].octets[i], x, scale);
        }
      }
    }
  }
}
#endif

void main() {
  prepare_levels();
  const uint per_group = LOCAL / SLICE * OUTS;
  const uint tiles_n = (p.n + per_group - 1u) / per_group, group = linear_group();
  const uint tile_m = group / tiles_n, n0 = group % tiles_n * per_group;  // BY_EXPERT: tile_m is the pair
  if (tile_m >= (BY_EXPERT ? p.m * p.slots : (p.m + ROWS - 1u) / ROWS)) return;  // the whole workgroup leaves
  const uint t = gl_LocalInvocationID.x, column = n0 + t / SLICE * OUTS;
  uint64_t weight = p.weight, first_row = uint64_t(0);
  bool is_there = true;
  if (BY_EXPERT) {
    const int64_t id = load_int64(p.ids, uint64_t(tile_m), INDEX_DTYPE);
    is_there = id >= int64_t(0) && id < int64_t(p.experts);
    if (!is_there && n0 == 0u && t == 0u) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, id, p.experts);
    weight += is_there ? uint64_t(id * p.expert_bytes_or_residual) : uint64_t(0);
    first_row = is_there ? uint64_t(id) * p.n : uint64_t(0);
  }
  const uint m0 = BY_EXPERT ? tile_m / p.slots : tile_m * ROWS;

  float sums[SUMS];
  [[unroll]] for (int i = 0; i < SUMS; ++i) sums[i] = 0.0;
  Row w_row[COLUMNS];
  [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
    const uint row = min(column + uint(j % OUTS), p.n - 1u) + uint(j / OUTS) * p.n;
    w_row[j] = row_at(weight + uint64_t(row) * p.row_bytes, first_row + row, p.k);
  }
#if DOT
  multiply(w_row, m0, sums);
#else
  uint64_t x_row[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) x_row[r] = row_of_x(m0 + r);
  for (uint u = t % SLICE; u < p.k / (8u * SPAN); u += SLICE) {
    const uint here = first_octet(u);
    // Of one row of x its numbers are kept, and weights are decoded in turn; of more rows the weights are kept.
    float x[8 * kMostOctets], all[kMostOctets];
    if (ROWS == 1)
      [[unroll]] for (int i = 0; i < SPAN; ++i)
        load_octet(x_row[0], here + next_octet(i), 8 * i, x, all[i]);
    Span w[COLUMNS];
    [[unroll]] for (int j = 0; j < COLUMNS; ++j) {
      span_of(w_row[j], u, w[j]);
      if (ROWS == 1) [[unroll]] for (int i = 0; i < SPAN; ++i) sums[j] += dot_octet(w[j].octets[i], x, 8 * i, all[i]);
    }
    if (ROWS > 1) {
      [[unroll]] for (int i = 0; i < SPAN; ++i) {
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
          load_octet(x_row[r], here + next_octet(i), 0, x, all[0]);
          [[unroll]] for (int j = 0; j < COLUMNS; ++j) sums[r * COLUMNS + j] += dot_octet(w[j].octets[i], x, 0, all[0]);
        }
      }
    }
  }
#endif

  [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * LOCAL + t] = sums[i];
  barrier();  // the sums are written
  for (uint width = SLICE / 2u; width > 0u; width /= 2u) {
    if (t % SLICE < width)
      [[unroll]] for (int i = 0; i < SUMS; ++i) partial[i * LOCAL + t] += partial[i * LOCAL + t + width];
    barrier();  // and added
  }
  for (uint i = t; i < ROWS * per_group; i += LOCAL) {
    const uint which = i / per_group, mine = i % per_group, n = n0 + mine, m = m0 + which;
    if (n >= p.n || m >= p.m) continue;
    const uint product = (which * COLUMNS + mine % OUTS) * LOCAL + mine / OUTS * SLICE;
    float y = partial[product];
    if (HAS_BIAS) y += load_float(p.bias, uint64_t(n), X_DTYPE);
    if (GATED) {
      float up = partial[product + OUTS * LOCAL];
      if (HAS_BIAS) up += load_float(p.bias, uint64_t(p.n + n), X_DTYPE);
      y = activate(y) * up;
    }
    const uint64_t at = uint64_t(BY_EXPERT ? tile_m : m) * p.n + n;
    if (RESIDUAL) y += load_float(uint64_t(p.expert_bytes_or_residual), at, X_DTYPE);
    store_float(p.out_, at, OUT_DTYPE, is_there ? y : 0.0);
  }
}
