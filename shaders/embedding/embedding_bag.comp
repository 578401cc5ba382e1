#pragma aule axis C float double
#pragma aule feature float64 if C=double
// dst[b, d] = sum, mean or max over i in [offsets[b], offsets[b + 1]) of weight[index[i], d] * scale[i], without
// entries equal to padding_idx. One invocation per (b, d). Those of d = 0 also write the bag of every entry and the
// size of every bag, for the backward. max writes the index of the largest entry, -1 for an empty bag.
// Offsets and indices out of range are reported and left out.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/errors.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_F32;
layout(constant_id = 1) const int INDEX_DTYPE = AULE_DT_I64;
layout(constant_id = 2) const int MODE = 0;
layout(constant_id = 3) const bool SCALED = false;
const int kSum = 0, kMean = 1, kMax = 2;

struct Params {
  uint64_t weight;
  uint64_t index;        // contiguous, `entries` long
  uint64_t offsets;      // contiguous, at least `bags` long
  uint64_t scale;        // contiguous
  uint64_t dst;          // (bags, width), contiguous
  uint64_t bag_of;       // index dtype, per entry
  uint64_t bag_size;     // index dtype, per bag
  uint64_t max_index;    // index dtype, (bags, width)
  uint64_t error;
  int64_t rows, row_stride, column_stride;
  int64_t entries;
  int64_t padding_index;
  uint bags, width, offsets_count, tag;
};
#include "common/params.glsl"

#include "common/real.glsl"

int64_t offset(uint b) {
  if (b >= p.offsets_count) return p.entries;
  int64_t o = load_int64(p.offsets, uint64_t(b), INDEX_DTYPE);
  if (o < int64_t(0) || o > p.entries || (b == 0u && o != int64_t(0))) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, o, p.entries);
    o = limited(o, int64_t(0), p.entries);
  }
  return o;
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.bags) * p.width) return;
  uint b = uint(id / p.width), d = uint(id - uint64_t(b) * p.width);
  int64_t begin = offset(b), end = offset(b + 1u);
  REAL result = REAL(0);
  int64_t count = int64_t(0), best = int64_t(-1);
  for (int64_t i = begin; i < end; ++i) {
    if (d == 0u) store_int64(p.bag_of, uint64_t(i), INDEX_DTYPE, int64_t(b));
    int64_t row = load_int64(p.index, uint64_t(i), INDEX_DTYPE);
    if (row == p.padding_index) continue;
    if (row < int64_t(0) || row >= p.rows) {
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, row, p.rows);
      continue;
    }
    REAL x = LOAD(p.weight, uint64_t(row * p.row_stride + int64_t(d) * p.column_stride), DTYPE);
    if (SCALED) x *= LOAD(p.scale, uint64_t(i), DTYPE);
    if (MODE == kMax) {
      if (count == int64_t(0) || x > result) {
        result = x;
        best = row;
      }
    } else {
      result += x;
    }
    ++count;
  }
  if (MODE == kMean && count != int64_t(0)) result /= REAL(count);
  STORE(p.dst, id, DTYPE, result);
  if (MODE == kMax) store_int64(p.max_index, id, INDEX_DTYPE, best);
  if (d == 0u) store_int64(p.bag_size, uint64_t(b), INDEX_DTYPE, count);
}
