#pragma aule axis C float double
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
// grad_in[image of k, c, index[k, c, bin]] += grad_out[k, c, bin], where index is not -1. POSITIONS: a share of
// grad_out[k, c, bin] to each cell of the bin, in channel (c, bin). One invocation per element of grad_out, by atomics,
// in float32; ORDERED: one per plane of grad_in, as in roi_align_backward.comp.
#ifdef ADD_native
#extension GL_EXT_shader_atomic_float : require
#endif
#include "common/dtype.glsl"
#include "common/atomic_float.glsl"
layout(local_size_x = 64) in;
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
#include "common/errors.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool POSITIONS = false;
layout(constant_id = 2) const bool ORDERED = false;
struct Params {
  uint64_t grad_out, rois, index, grad_in, error;
  uint64_t n;      // invocations
  uint64_t scale;  // bits of the arithmetic type
  int size[2], pooled[2];  // y, x
  int images;
  uint channels, first, last, tag;
};
#include "common/params.glsl"
#include "common/scattered_sum.glsl"
#include "detection/cells.glsl"

void spread_bin(Bin b, int image, uint64_t of) {
  const uint64_t to = plane_of(image, b.channel);
  const REAL g = LOAD(p.grad_out, of, DTYPE);
  if (!POSITIONS) {
    const int cell = I32Ref(p.index + of * 4).v, cells = p.size[0] * p.size[1];
    if (cell >= 0 && cell < cells) add_to(to + uint64_t(cell), g);
    if (cell < -1 || cell >= cells)
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(cell), int64_t(cells));
    return;
  }
  const ivec2 ys = cells_of(b.region, 0, b.y, p.size[0]), xs = cells_of(b.region, 1, b.x, p.size[1]);
  const REAL share = g / REAL(max((ys.y - ys.x) * (xs.y - xs.x), 1));
  for (int y = ys.x; y < ys.y; ++y)
    for (int x = xs.x; x < xs.y; ++x) add_to(to + uint64_t(y * p.size[1] + x), share);
}

#include "detection/spread.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id < p.n) spread(id);
}
