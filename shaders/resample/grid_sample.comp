#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[n, c, o] = sum over taps t of weight(n, o, t) * in[n, c, index(n, o, t)], where grid[n, o] is a position in
// [-1, 1] per axis, x first. Nearest, linear (2-D, 3-D) or cubic (2-D); outside the image are zeros, its edge or its
// mirror image. One invocation per position of the grid and range of channels. Planes are contiguous.
#include "common/dtype.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int DIMS = 2;
layout(constant_id = 2) const int MODE = 0;     // 0 linear, 1 nearest, 2 cubic
layout(constant_id = 3) const int PADDING = 0;  // 0 zeros, 1 border, 2 reflection
layout(constant_id = 4) const bool ALIGN_CORNERS = false;
struct Params {
  uint64_t in_, grid, out_;
  uint64_t n;       // invocations
  int in_size[3];
  uint out_plane, channels, range, ranges;  // channels of an invocation, ranges of a position
};
#include "common/params.glsl"
#include "resample/grid_sample.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint64_t block = id / uint64_t(p.out_plane), image = block / uint64_t(p.ranges);
  const uint o = uint(id - block * uint64_t(p.out_plane));
  const uint first = uint(block - image * uint64_t(p.ranges)) * p.range, last = min(first + p.range, p.channels);
  const uint64_t position = image * uint64_t(p.out_plane) + uint64_t(o);
  const Taps z = taps_of(0, position), y = taps_of(1, position), x = taps_of(2, position);
  const uint64_t in_plane = uint64_t(p.in_size[0] * p.in_size[1] * p.in_size[2]);
  for (uint channel = first; channel < last; ++channel) {
    const uint64_t plane = image * uint64_t(p.channels) + uint64_t(channel);
    REAL sum = REAL(0);
    for (int a = 0; a < DEPTH_TAPS; ++a)
      for (int b = 0; b < TAPS; ++b)
        for (int c = 0; c < TAPS; ++c) {
          const int cell = cell_of(z, y, x, a, b, c);
          if (cell >= 0)
            sum += z.weight[a] * y.weight[b] * x.weight[c] * LOAD(p.in_, plane * in_plane + uint64_t(cell), DTYPE);
        }
    STORE(p.out_, plane * uint64_t(p.out_plane) + uint64_t(o), DTYPE, sum);
  }
}
