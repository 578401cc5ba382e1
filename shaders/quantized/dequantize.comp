// out[r][i] = the weight at column `first` + i of row `first_row` + r, or of row indices[r]: packed rows of a format
// (formats.def). An invocation owns an octet of out, which is contiguous. An index out of range is
// reported, and its row is 0.
layout(local_size_x = 64) in;
layout(constant_id = 0) const int FORMAT = 0;
layout(constant_id = 1) const int OUT_DTYPE = 1;
layout(constant_id = 2) const bool INDEXED = false;
layout(constant_id = 3) const int INDEX_DTYPE = 0;
layout(constant_id = 4) const int SCALES = 0;
layout(constant_id = 5) const int SCALE_DTYPE = 0;
layout(constant_id = 6) const int ZERO_DTYPE = 0;
struct Params {
  uint64_t out_, weight;
  uint64_t indices;  // contiguous
  uint64_t error;
  uint64_t scales, zeros, outer_scales, code_offset;
  int64_t rows;  // of weight
  uint row_bytes;
  uint k, first, octets;  // octets of a row of out
  uint first_row, out_rows, tag;
  uint scale_row, scale_shifts;
};
#include "common/params.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"
#include "quantized/decode.glsl"
#define VEC_ELEMS 8
#include "common/vec8.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= uint64_t(p.out_rows) * p.octets) return;
  const uint r = uint(id / p.octets), o = uint(id - uint64_t(r) * p.octets);
  int64_t row = int64_t(p.first_row) + int64_t(r);
  bool is_there = true;
  if (INDEXED) {
    row = load_int64(p.indices, uint64_t(r), INDEX_DTYPE);
    is_there = row >= int64_t(0) && row < p.rows;
    if (!is_there && o == 0u) report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, p.rows);
    row = is_there ? row : int64_t(0);
  }
  const Octet w = octet_of(p.weight + uint64_t(row) * p.row_bytes, uint64_t(row), p.k, p.first / 8u + o);
  Words words;
  [[unroll]] for (int i = 0; i < 8; ++i) {
    // precise: one rounding for the product and one for the sum, as the formats' definitions have them.
    precise const float product = w.scale * w.q[i], value = product + w.offset;
    pack_float(words, i, OUT_DTYPE, is_there ? value : 0.0);
  }
  const int bytes = dtype_bytes(OUT_DTYPE) * 8;
  store_words(p.out_ + id * uint(bytes), bytes, words);
}
