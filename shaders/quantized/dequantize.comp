// out[r][i] = the weight at column `first` + i of row `first_row` + r, or of row indices[r]: packed rows of a format
// (formats.def). An invocation owns a span of a row. out is contiguous. An index out of range is
// reported, and its row is 0.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int FORMAT = 0;
layout(constant_id = 1) const int OUT_DTYPE = 1;
layout(constant_id = 2) const bool INDEXED = false;
layout(constant_id = 3) const int INDEX_DTYPE = 0;
layout(constant_id = 4) const int SCALES = 0;
layout(constant_id = 5) const int SCALE_DTYPE = 0;
layout(constant_id = 6) const int ZERO_DTYPE = 0;
layout(constant_id = 7) const int SPAN = 1;   // octets that an invocation decodes at once
layout(constant_id = 8) const int ALIGN = 4;  // bytes, at multiples of which rows of the weight begin
layout(constant_id = 9) const bool ONE_SCALE = false;
// Whether octets go through shared memory, so that neighbours store neighbouring bytes: for GPUs, if a span is longer
// than the 32 bytes that they write at once.
layout(constant_id = 10) const bool STAGED = false;
struct Params {
  uint64_t out_, weight;
  uint64_t indices;  // contiguous
  uint64_t error;
  uint64_t scales, zeros, outer_scales, code_offset;
  int64_t rows;  // of weight
  uint row_bytes;
  uint k, first, spans;  // spans of a row of out
  uint first_row, out_rows, tag;
  uint scale_row, scale_shifts;
};
const bool EACH = true;
#include "common/params.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "quantized/decode.glsl"
#define VEC_ELEMS 8
#include "common/vec8.glsl"

const int kQuads = OUT_DTYPE == AULE_DT_F32 ? 2 : 1;  // of 16 bytes, of an octet of out
shared uvec4 staged[STAGED ? 64 * kMostOctets * 2 : 1];

void main() {
  prepare_levels();
  const uint t = gl_LocalInvocationID.x;
  const uint64_t first_id = uint64_t(linear_group()) * 64u, spans = uint64_t(p.out_rows) * p.spans;
  if (first_id >= spans) return;  // the whole workgroup
  const uint count = uint(lesser(uint64_t(64), spans - first_id));
  const uint64_t out_ = p.out_ + first_id * uint(SPAN * kQuads * 16);
  if (t < count) {
    const uint64_t id = first_id + t;
    const uint r = uint(id / p.spans), u = uint(id - uint64_t(r) * p.spans);
    int64_t row = int64_t(p.first_row) + int64_t(r);
    bool is_there = true;
    if (INDEXED) {
      row = load_int64(p.indices, uint64_t(r), INDEX_DTYPE);
      is_there = row >= int64_t(0) && row < p.rows;
      if (!is_there && u == 0u) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, p.rows);
      row = is_there ? row : int64_t(0);
    }
    Span s;
    span_of(row_at(p.weight + uint64_t(row) * p.row_bytes, uint64_t(row), p.k), p.first / (8u * SPAN) + u, s);
    [[unroll]] for (int i = 0; i < SPAN; ++i) {
      Words words;
      [[unroll]] for (int j = 0; j < 8; ++j) {
        // precise: one rounding for the product and one for the sum, as the formats' definitions have them.
        precise const float product = s.octets[i].scale * number_of(s.octets[i], j);
        precise const float value = product + s.octets[i].offset;
        pack_float(words, j, OUT_DTYPE, is_there ? value : 0.0);
      }
      const uint o = first_octet(t) + next_octet(i);  // spans of `lanes` neighbours are within a row
      if (STAGED)
        [[unroll]] for (int j = 0; j < kQuads; ++j)
          staged[o * kQuads + j] = uvec4(words.w[4 * j], words.w[4 * j + 1], words.w[4 * j + 2], words.w[4 * j + 3]);
      else
        store_words(out_ + o * uint(kQuads * 16), kQuads * 16, words);
    }
  }
  if (!STAGED) return;
  barrier();  // all octets are there
  for (uint i = t; i < count * uint(SPAN * kQuads); i += 64u) Aligned16Ref(out_ + i * 16u).v = staged[i];
}
