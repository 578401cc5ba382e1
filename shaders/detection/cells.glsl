// Cells of a region's bins, for roi_pool.comp and roi_pool_backward.comp: the corners are rounded to whole cells, and
// bins take every cell that they touch. Include after float_bits.glsl, Params and the constants.
#include "detection/regions.glsl"

// Nearest whole number, halves away from 0. NaN is 0, and what is far outside of any image stays so.
int corner_of(uint region, int at) {
  precise REAL v = LOAD(p.rois, uint64_t(region) * 5 + uint64_t(at), DTYPE) * REAL_OF_BITS(p.scale);
  if (is_nan(v)) return 0;
  v = clamp(v, REAL(-536870912), REAL(536870912));
  const REAL whole = trunc(v);
  precise REAL rest = v - whole;
  return int(whole) + (abs(rest) >= REAL(0.5) ? int(sign(rest)) : 0);
}

// size / bins, rounded to nearest even, as the CPU's division: another last bit may be a cell more. A device's float32
// division may be off by 2.5 last bits.
REAL step_of(int size, int bins) {
#ifdef C_double
  return REAL(size) / REAL(bins);
#else
  const uint a = uint(float(size)), b = uint(float(bins));
  const int up = max(26 + findMSB(b) - findMSB(a), 0);
  const uint64_t shifted = uint64_t(a) << up, whole = shifted / uint64_t(b);  // at least 26 bits
  const uint64_t q = whole * 2 + uint64_t(whole * uint64_t(b) != shifted ? 1 : 0);
  const uint upper = uint(q >> 32);
  const int drop = (upper != 0u ? 32 + findMSB(upper) : findMSB(uint(q))) - 23;
  const uint64_t kept = q >> drop, rest = q - (kept << drop), tie = uint64_t(1) << (drop - 1);
  const uint rounded = uint(kept) + uint(rest > tie || (rest == tie && (kept & 1) != 0) ? 1 : 0);
  return float(rounded) * uintBitsToFloat(uint(drop - up - 1 + 127) << 23);
#endif
}

// The first cell of bin i along dimension d, and the one after its last, within 0..limit. A region ends with the cell
// of its last corner (Girshick 2015), or, POSITIONS, before it.
ivec2 cells_of(uint region, int d, int i, int limit) {
  const int low = corner_of(region, 2 - d), high = corner_of(region, 4 - d);
  const REAL step = step_of(max(high - low + (POSITIONS ? 0 : 1), 1), p.pooled[d]);
  return clamp(ivec2(int(floor(REAL(i) * step)), int(ceil(REAL(i + 1) * step))) + low, ivec2(0), ivec2(limit));
}
