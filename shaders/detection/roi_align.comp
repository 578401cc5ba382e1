#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[k, c, by, bx] = mean of bilinear samples of in[image of k, c] in bin (by, bx) of region rois[k] = (image, x1, y1,
// x2, y2), whose corners are multiplied by `scale`: He et al. 2017 (arXiv:1703.06870). sampling_ratio samples of a bin
// along each side, or as many as the bin has cells. POSITIONS: of channel (c, by, bx), which mapping[k, c, by, bx]
// says. One invocation per element of out. Tensors are contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
#include "common/errors.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool ALIGNED = false;  // cells have their values at their centres
layout(constant_id = 2) const bool POSITIONS = false;
struct Params {
  uint64_t in_, rois, out_, mapping, error;
  uint64_t n;      // invocations
  uint64_t scale;  // bits of the arithmetic type
  int size[2], pooled[2];  // y, x
  int images, sampling_ratio;
  uint channels, tag;  // channels: of in
};
#include "common/params.glsl"
#include "detection/roi.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const Bin b = bin_of(id);
  const int image = image_of(b.region);
  if (image < 0 || image >= p.images) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(image), int64_t(p.images));
    return;
  }
  const Region r = region_of(b.region);
  const Axis ys = axis_of(r, 0, b.y), xs = axis_of(r, 1, b.x);
  const uint64_t from = plane_of(image, b.channel);
  REAL sum = REAL(0);
  for (int i = ys.first; i < ys.last; ++i)
    for (int j = xs.first; j < xs.last; ++j) {
      REAL y, x;
      const bool in_y = place_of(ys, 0, i, y), in_x = place_of(xs, 1, j, x);
      const Corners c = corners_of(y, x, p.size[0], p.size[1]);
      REAL sample_ = REAL(0);
      for (int corner = 0; corner < 4; ++corner) {
        const REAL v = LOAD(p.in_, from + uint64_t(max(c.index[corner], 0)), DTYPE);
        sample_ += c.index[corner] >= 0 ? c.weight[corner] * v : REAL(0);
      }
      if (in_y && in_x) sum += sample_;
    }
  STORE(p.out_, id, DTYPE, sum / count_of(ys, xs));
  if (POSITIONS) I32Ref(p.mapping + id * 4).v = int(b.channel);
}
