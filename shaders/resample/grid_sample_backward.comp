#pragma aule axis C float double
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
// grad_in[n, c, i] += weight(n, o, t) * grad_out[n, c, o] for each tap t of o that reads i
// grad_grid[n, o]   = sum over c, t of slope(n, o, t) * in[n, c, index(n, o, t)] * grad_out[n, c, o]
// One invocation per position of the grid, over all channels; grad_in by atomics, in float32. ORDERED: one invocation
// per plane (n, c), over the positions `first` to `last`, for grad_in alone: deterministic, and the form for float64.
// grad_in has the arithmetic type and holds zeros, or the sums of the positions before.
#ifdef ADD_native
#extension GL_EXT_shader_atomic_float : require
#endif
#include "common/dtype.glsl"
#include "common/atomic_float.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int DIMS = 2;
layout(constant_id = 2) const int MODE = 0;     // 0 linear, 1 nearest, 2 cubic
layout(constant_id = 3) const int PADDING = 0;  // 0 zeros, 1 border, 2 reflection
layout(constant_id = 4) const bool ALIGN_CORNERS = false;
layout(constant_id = 5) const bool WANTS_INPUT = false;
layout(constant_id = 6) const bool WANTS_GRID = false;
layout(constant_id = 7) const bool ORDERED = false;
struct Params {
  uint64_t grad_out, in_, grid, grad_in, grad_grid;
  uint64_t n;  // invocations
  int in_size[3];
  uint out_plane, channels, first, last;
};
#include "common/params.glsl"
#include "resample/grid_sample.glsl"
#include "common/scattered_sum.glsl"

REAL grad_grid[3] = REAL[3](REAL(0), REAL(0), REAL(0));  // depth, height, width

void visit(Taps z, Taps y, Taps x, uint64_t plane, uint64_t o) {
  const uint64_t in_plane = uint64_t(p.in_size[0] * p.in_size[1] * p.in_size[2]);
  const REAL g = LOAD(p.grad_out, plane * uint64_t(p.out_plane) + o, DTYPE);
  for (int a = 0; a < DEPTH_TAPS; ++a)
    for (int b = 0; b < TAPS; ++b)
      for (int c = 0; c < TAPS; ++c) {
        const int cell = cell_of(z, y, x, a, b, c);
        if (cell < 0) continue;
        const uint64_t i = plane * in_plane + uint64_t(cell);
        if (WANTS_INPUT) add_to(i, z.weight[a] * y.weight[b] * x.weight[c] * g);
        if (WANTS_GRID && MODE != NEAREST) {
          const REAL v = LOAD(p.in_, i, DTYPE) * g;
          if (DIMS == 3) grad_grid[0] += z.slope[a] * y.weight[b] * x.weight[c] * v;
          grad_grid[1] += z.weight[a] * y.slope[b] * x.weight[c] * v;
          grad_grid[2] += z.weight[a] * y.weight[b] * x.slope[c] * v;
        }
      }
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  if (ORDERED) {
    const uint64_t image = id / uint64_t(p.channels);
    for (uint o = p.first; o < p.last; ++o) {
      const uint64_t position = image * uint64_t(p.out_plane) + uint64_t(o);
      visit(taps_of(0, position), taps_of(1, position), taps_of(2, position), id, uint64_t(o));
    }
    return;
  }
  const uint64_t image = id / uint64_t(p.out_plane), o = id - image * uint64_t(p.out_plane);
  const Taps z = taps_of(0, id), y = taps_of(1, id), x = taps_of(2, id);
  for (uint c = 0u; c < p.channels; ++c) visit(z, y, x, image * uint64_t(p.channels) + uint64_t(c), o);
  if (WANTS_GRID)
    for (int k = 0; k < DIMS; ++k) STORE(p.grad_grid, id * uint64_t(DIMS) + uint64_t(k), DTYPE, grad_grid[2 - k]);
}
