#pragma aule axis C float double
#pragma aule feature float64 if C=double
// columns[n, (c, ky, kx), o] = mask[n, tap, o] * in[n, c] at (o * stride - pad + k * dilation + offset[n, tap, o]),
// bilinear, 0 outside: the operand of a deformable convolution's matrix product (Dai et al. 2017, arXiv:1703.06211; the
// mask: Zhu et al. 2019, arXiv:1811.11168). Each of `offset_groups` groups of channels has its own offsets and mask.
// One invocation per element of columns. Tensors are contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool MASKED = false;
struct Params {
  uint64_t in_, offset, mask, columns;
  uint64_t n;  // invocations
  int size[2], out_size[2], kernel[2], stride[2], pad[2], dilation[2];  // y, x
  uint channels, offset_groups;
};
#include "common/params.glsl"
#include "detection/deform.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint taps = uint(p.kernel[0] * p.kernel[1]), area = uint(p.out_size[0] * p.out_size[1]);
  const uint64_t row = id / uint64_t(area), plane = row / uint64_t(taps);
  const uint image = uint(plane / uint64_t(p.channels));
  const uint channel = uint(plane - uint64_t(image) * uint64_t(p.channels));
  const Tap t = tap_of(image, channel / (p.channels / p.offset_groups), uint(row - plane * uint64_t(taps)),
      uint(id - row * uint64_t(area)));
  const Corners c = corners_of(t.y, t.x, p.size[0], p.size[1]);
  const uint64_t from = plane * uint64_t(p.size[0]) * uint64_t(p.size[1]);
  REAL sum = REAL(0);
  for (int corner = 0; corner < 4; ++corner) {
    const REAL v = LOAD(p.in_, from + uint64_t(max(c.index[corner], 0)), DTYPE);
    sum += c.index[corner] >= 0 ? c.weight[corner] * v : REAL(0);
  }
  STORE(p.columns, id, DTYPE, t.mask * sum);
}
