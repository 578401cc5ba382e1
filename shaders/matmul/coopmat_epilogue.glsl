// For the epilogue of gemm_coopmat.comp: rows of c, of the residual and of out, 8 columns at a time. The kernel has
// declared Params, its constants and Vec16b.
#ifndef AULE_GEMM_COOPMAT_EPILOGUE_GLSL
#define AULE_GEMM_COOPMAT_EPILOGUE_GLSL
uint64_t address(uint64_t base, int64_t element) { return base + uint64_t(element * 2); }

// Columns col to col + 7 of a row of c or of the residual, as words of two; past n they may be anything. With
// ROW_CLASSES a column before the first one is negative.
#if ROW_CLASSES
uvec4 load_row(uint64_t base, uint row, uint col, int row_stride, int col_stride, int vec) {
  const int first = int(col), n = int(p.n);
  uvec4 v = uvec4(0);
  if (row >= p.m) return v;
  const uint64_t at = address(base, int64_t(row) * row_stride);
  UN for (int i = 0; i < 8; ++i)
    if (first + i >= 0 && first + i < n)
      v[i / 2] |= uint(U16Ref(address(at, int64_t(first + i) * col_stride)).v) << (16 * (i % 2));
  return v;
}
#else
uvec4 load_row(uint64_t base, uint row, uint col, int row_stride, int col_stride, int vec) {
  const int valid = int(p.n) - int(col);
  if (row >= p.m || valid <= 0) return uvec4(0);
  const uint64_t at = address(base, int64_t(row) * row_stride + int64_t(col) * col_stride);
  if (vec == 8) return Vec16b(at).v;
  uvec4 v = uvec4(0);
  UN for (int i = 0; i < 8; ++i)
    if (i < valid) v[i / 2] |= uint(U16Ref(address(at, int64_t(i) * col_stride)).v) << (16 * (i % 2));
  return v;
}
#endif
uvec4 load_c(uint64_t c, uint row, uint col) { return load_row(c, row, col, p.c_m, p.c_n, C_VEC); }
uvec4 load_residual(uint64_t residual, uint row, uint col) {
  return load_row(residual, row, col, p.out_m, p.out_n, OUT_VEC);
}
vec2 activate2(vec2 v) { return vec2(activate(v.x), activate(v.y)); }
#if ROW_CLASSES
// The piece is aligned, if it is whole.
void store_out(uint64_t out_, uint row, uint col, uvec4 v) {
  const int first = int(col), n = int(p.n);
  if (row >= p.m) return;
  const uint64_t at = address(out_, int64_t(row) * p.out_m + int64_t(first));
  if (first >= 0 && first + 8 <= n) {
    Vec16b(at).v = v;
    return;
  }
  UN for (int i = 0; i < 8; ++i)
    if (first + i >= 0 && first + i < n) U16Ref(at + 2 * i).v = uint16_t(v[i / 2] >> (16 * (i % 2)) & 0xffffu);
}
#else
// Elements past a row of n columns may be a neighbour's, and are left alone.
void store_out(uint64_t out_, uint row, uint col, uvec4 v) {
  const int valid = int(p.n) - int(col);
  if (row >= p.m || valid <= 0) return;
  const uint64_t at = address(out_, int64_t(row) * p.out_m + int64_t(col) * p.out_n);
  if (OUT_VEC == 8 && (!ODD_N || valid >= 8)) {
    Vec16b(at).v = v;
  } else {
    UN for (int i = 0; i < 8; ++i)
      if (i < valid) U16Ref(address(at, int64_t(i) * p.out_n)).v = uint16_t(v[i / 2] >> (16 * (i % 2)) & 0xffffu);
  }
}
#endif
#endif
