// Coordinates of the lower (or upper) triangle of a rows x columns matrix, row by row: tril_indices, triu_indices.
// Contiguous dst of shape (2, n). One invocation per pair finds its row by bisection over the closed-form count.
layout(local_size_x = 128) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

layout(constant_id = 0) const int DTYPE = AULE_DT_I64;
layout(constant_id = 1) const bool UPPER = false;

struct Params {
  uint64_t dst;
  int64_t n;
  int64_t rows, columns, offset;
};
#include "common/params.glsl"

// Elements at or below the diagonal in rows [0, r).
int64_t lower_count(int64_t r, int64_t offset) {
  // row i holds clamp(i + offset + 1, 0, columns)
  int64_t first = limited(-offset, int64_t(0), r);                  // rows before hold none
  int64_t full = limited(p.columns - offset - int64_t(1), first, r);  // rows from here on hold all
  int64_t k = full - first;
  return k * (first + offset + int64_t(1)) + k * (k - int64_t(1)) / int64_t(2) + (r - full) * p.columns;
}
int64_t count(int64_t r) { return UPPER ? r * p.columns - lower_count(r, p.offset - int64_t(1)) :
    lower_count(r, p.offset); }

void main() {
  int64_t i = int64_t(linear_invocation());
  if (i >= p.n) return;
  int64_t low = int64_t(0), high = p.rows - int64_t(1);  // the last row r with count(r) <= i
  for (int step = 0; step < 64 && low < high; ++step) {
    int64_t middle = (low + high + int64_t(1)) / int64_t(2);
    if (count(middle) <= i) low = middle; else high = middle - int64_t(1);
  }
  int64_t column = i - count(low);
  if (UPPER) column += limited(low + p.offset, int64_t(0), p.columns);
  store_int64(p.dst, uint64_t(i), DTYPE, low);
  store_int64(p.dst, uint64_t(p.n + i), DTYPE, column);
}
