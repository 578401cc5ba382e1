#pragma aule axis C float double int64_t
#pragma aule feature float64 if C=double
// For each value the number of boundaries before it, by binary search: those < value, or those <= value if IS_RIGHT.
// bounds[rows, m] or one row for all, sorted (through `sorter` if given); values[rows, n].
layout(constant_id = 0) const int BOUNDS_DTYPE = 0;
layout(constant_id = 1) const int VALUES_DTYPE = 0;
layout(constant_id = 2) const int OUT_DTYPE = 0;
layout(constant_id = 3) const bool IS_RIGHT = false;
layout(constant_id = 4) const bool HAS_SORTER = false;
layout(constant_id = 5) const int LOCAL = 8;
layout(local_size_x_id = 5) in;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "common/errors.glsl"

struct Params {
  uint64_t bounds, sorter, values, out_, error;
  uint64_t numel, m, n;  // n: values per row of bounds; 0 when bounds are one row
  uint tag;
};
#include "common/params.glsl"

C load(uint64_t base, uint64_t i, int dt) {
#if defined(C_int64_t)
  return load_int64(base, i, dt);
#elif defined(C_double)
  return load_double(base, i, dt);
#else
  return load_float(base, i, dt);
#endif
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.numel) return;
  uint64_t start = p.n == uint64_t(0) ? uint64_t(0) : id / p.n * p.m;
  C x = load(p.values, id, VALUES_DTYPE);
  uint64_t lo = uint64_t(0), hi = p.m;
  while (lo < hi) {
    uint64_t mid = (lo + hi) / 2;
    uint64_t at = HAS_SORTER ? uint64_t(I64Ref(p.sorter + (start + mid) * 8).v) : mid;
    if (HAS_SORTER && at >= p.m) {  // a negative one, too
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(at), int64_t(p.m));
      at = p.m - 1;
    }
    C b = load(p.bounds, start + at, BOUNDS_DTYPE);
    // The comparison is negated, so that a NaN is after all boundaries.
    if (!(IS_RIGHT ? b > x : b >= x)) lo = mid + 1;
    else hi = mid;
  }
  store_int64(p.out_, id, OUT_DTYPE, int64_t(lo));
}
