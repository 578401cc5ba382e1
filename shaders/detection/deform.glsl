// Places that the taps of a deformable convolution read, for deform_columns{,_backward}.comp, which
// have declared Params and the constants. Offsets are [images, groups * taps, 2, out_y, out_x], y first.
#include "detection/bilinear.glsl"

struct Tap {
  REAL y, x;
  REAL mask;
  uint64_t at;  // element of [images, groups * taps, out_y, out_x], as of the mask
};

Tap tap_of(uint image, uint group, uint tap, uint o) {
  const uint taps = uint(p.kernel[0] * p.kernel[1]), area = uint(p.out_size[0] * p.out_size[1]);
  const uint64_t row = (uint64_t(image) * uint64_t(p.offset_groups) + uint64_t(group)) * uint64_t(taps) + uint64_t(tap);
  const int oy = int(o) / p.out_size[1], ox = int(o) % p.out_size[1];
  const int ky = int(tap) / p.kernel[1], kx = int(tap) % p.kernel[1];
  Tap t;
  t.at = row * uint64_t(area) + uint64_t(o);
  const uint64_t offset = row * 2 * uint64_t(area) + uint64_t(o);
  t.y = REAL(oy * p.stride[0] - p.pad[0] + ky * p.dilation[0]) + LOAD(p.offset, offset, DTYPE);
  t.x = REAL(ox * p.stride[1] - p.pad[1] + kx * p.dilation[1]) + LOAD(p.offset, offset + uint64_t(area), DTYPE);
  t.mask = REAL(1);
  if (MASKED) t.mask = LOAD(p.mask, t.at, DTYPE);
  return t;
}
