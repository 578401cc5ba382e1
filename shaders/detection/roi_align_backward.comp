#pragma aule axis C float double
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
// grad_in[image of k, c, cell] += weight(k, bin, cell) * grad_out[k, c, bin]: what roi_align.comp has read, scattered.
// One invocation per element of grad_out, by atomics, in float32. ORDERED: one invocation per plane of grad_in, over
// the regions `first` to `last`: deterministic, and the form for float64. grad_in has the arithmetic type and holds
// zeros, or the sums of the regions before. Regions of images that are not there are passed over: the forward has
// reported them.
#ifdef ADD_native
#extension GL_EXT_shader_atomic_float : require
#endif
#include "common/dtype.glsl"
#include "common/atomic_float.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool ALIGNED = false;
layout(constant_id = 2) const bool POSITIONS = false;
layout(constant_id = 3) const bool ORDERED = false;
struct Params {
  uint64_t grad_out, rois, grad_in;
  uint64_t n;      // invocations
  uint64_t scale;  // bits of the arithmetic type
  int size[2], pooled[2];  // y, x
  int images, sampling_ratio;
  uint channels, first, last;
};
#include "common/params.glsl"
#include "common/scattered_sum.glsl"
#include "detection/roi.glsl"

void spread_bin(Bin b, int image, uint64_t of) {
  const Region r = region_of(b.region);
  const Axis ys = axis_of(r, 0, b.y), xs = axis_of(r, 1, b.x);
  const uint64_t to = plane_of(image, b.channel);
  const REAL g = LOAD(p.grad_out, of, DTYPE) / count_of(ys, xs);
  for (int i = ys.first; i < ys.last; ++i)
    for (int j = xs.first; j < xs.last; ++j) {
      REAL y, x;
      const bool in_y = place_of(ys, 0, i, y), in_x = place_of(xs, 1, j, x);
      const Corners c = corners_of(y, x, p.size[0], p.size[1]);
      for (int corner = 0; corner < 4; ++corner)
        if (in_y && in_x && c.index[corner] >= 0) add_to(to + uint64_t(c.index[corner]), c.weight[corner] * g);
    }
}

#include "detection/spread.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id < p.n) spread(id);
}
