// The tile of a workgroup: bands of BAND row tiles share their columns in the cache. Declares m0 and
// n0, the first row and column of tile `index` of tiles_m x tiles_n.
#define PLACE_TILE(index, BAND, ROWS, COLUMNS)                                                       \
  const uint band = index / (BAND * tiles_n), band_start = band * BAND;                              \
  const uint band_rows = min(tiles_m - band_start, BAND), inside = index - band * BAND * tiles_n;    \
  const uint m0 = (band_start + inside % band_rows) * ROWS, n0 = inside / band_rows * COLUMNS;
