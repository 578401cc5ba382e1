// For implicit_gemm.comp: the positions of rows and taps in x, and the store of one result. The kernel has declared
// Params, its constants and `divided`.
#ifndef AULE_CONV_POSITIONS_GLSL
#define AULE_CONV_POSITIONS_GLSL
// The offset of position (y, x) of x in its image, in vec16bs; false: it is outside.
bool inside(int y, int x, out uint at) {
  at = uint(y * p.width + x) * (p.pixel / E);
  return uint(y) < uint(p.height) && uint(x) < uint(p.width);
}
// Row r of the positions: its image's place in vec16bs, its coordinates before a tap is added.
void locate(uint r, out uint image, out int y, out int x) {
  const uint i = divided(r, p.by_area), rest = r - i * p.area, line = divided(rest, p.by_row_width);
  image = i * uint(p.height * p.width) * (p.pixel / E);
  y = int(line) * p.mul[0] + p.off[0];
  x = int(rest - line * p.row_width) * p.mul[1] + p.off[1];
}
// k or n as {offset along y, along x, vec16b of the pixel}.
void tap_of(uint k, out int y, out int x, out uint vec16b) {
  const uint tap = divided(k, p.by_channels), line = divided(tap, p.by_kernel_width);
  y = int(line) * p.step[0];
  x = int(tap - line * uint(p.kernel_width)) * p.step[1];
  vec16b = (k - tap * p.channels) / E;
}

uint64_t group_bias;
void store(uint64_t out_, uint row, uint col, float v) {
  if (row >= p.m || col >= p.n) return;
#ifdef MAKES_weights
  F32Ref(out_ + (uint64_t(row) * p.n + col) * 4).v = v;
#else
  if (HAS_BIAS) v += load_float(group_bias, col, DTYPE);
  store_float(out_, uint64_t(row) * p.out_ld + col, DTYPE, v);
#endif
}
#endif
