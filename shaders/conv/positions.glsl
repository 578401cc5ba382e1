// For implicit_gemm.comp: the positions of rows and taps in x, and the store of one result. The kernel has declared
// Params, its constants and `divided`.
#ifndef AULE_CONV_POSITIONS_GLSL
#define AULE_CONV_POSITIONS_GLSL
// Places and taps are {x, y, z}; without DEEP z is 0. Their offset in an image of x, in vec16bs, which adds up.
uint offset_of(ivec3 at) {
  const int line = DEEP ? at.z * p.size[1] + at.y : at.y;
  return uint(line * p.size[2] + at.x) * (p.pixel / E);
}
bool inside(ivec3 at) {
  return (!DEEP || uint(at.z) < uint(p.size[0])) && uint(at.y) < uint(p.size[1]) && uint(at.x) < uint(p.size[2]);
}
// Row r of the positions: its image's place in vec16bs, its place before a tap is added.
void locate(uint r, out uint image, out ivec3 at) {
  const uint i = divided(r, p.by_area);
  uint rest = r - i * p.area;
  image = i * uint(DEEP ? p.size[0] * p.size[1] * p.size[2] : p.size[1] * p.size[2]) * (p.pixel / E);
  at.z = 0;
  if (DEEP) {
    const uint plane = divided(rest, p.by_plane);
    at.z = int(plane) * p.mul[0] + p.off[0];
    rest -= plane * p.plane;
  }
  const uint line = divided(rest, p.by_row_width);
  at.y = int(line) * p.mul[1] + p.off[1];
  at.x = int(rest - line * p.row_width) * p.mul[2] + p.off[2];
}
// k or n as {the tap, vec16b of the pixel}.
void tap_of(uint k, out ivec3 at, out uint vec16b) {
  const uint tap = divided(k, p.by_channels);
  uint rest = tap;
  at.z = 0;
  if (DEEP) {
    const uint plane = divided(tap, p.by_kernel_plane);
    at.z = int(plane) * p.step[0];
    rest -= plane * uint(p.kernel_plane);
  }
  const uint line = divided(rest, p.by_kernel_width);
  at.y = int(line) * p.step[1];
  at.x = int(rest - line * uint(p.kernel_width)) * p.step[2];
  vec16b = (k - tap * p.channels) / E;
}

uint64_t group_bias;
void store(uint64_t out_, uint row, uint col, float v) {
  if (row >= p.m || col >= p.n) return;
#ifdef MAKES_weights
  F32Ref(out_ + (uint64_t(row) * p.n + col) * 4).v = v;
#else
  if (PARTS) {  // a bias is float32, too, and there is one group
    if (HAS_BIAS) v += F32Ref(group_bias + uint64_t(col) * 4).v;
    F32Ref(out_ + (uint64_t(row) * p.out_ld + col) * 4).v = v;
    return;
  }
  if (HAS_BIAS) v += load_float(group_bias, col, DTYPE);
  store_float(out_, uint64_t(row) * p.out_ld + col, DTYPE, v);
#endif
}
#endif
