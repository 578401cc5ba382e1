#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[k, c, by, bx] = mean of bilinear samples of in[image of k, c] in bin (by, bx) of region rois[k] = (image, x1, y1,
// x2, y2), whose corners are multiplied by `scale`: He et al. 2017 (arXiv:1703.06870). sampling_ratio samples of a bin
// along each side, or as many as the bin has cells. One invocation per element of out. Tensors are contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
#include "common/errors.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool ALIGNED = false;  // cells have their values at their centres
struct Params {
  uint64_t in_, rois, out_, error;
  uint64_t n;      // invocations
  uint64_t scale;  // bits of the arithmetic type
  int size[2], pooled[2];  // y, x
  int images, sampling_ratio;
  uint channels, tag;
};
#include "common/params.glsl"
#include "detection/roi.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const uint bins = uint(p.pooled[0] * p.pooled[1]);
  const uint64_t plane = id / uint64_t(bins);
  const int bin = int(id - plane * uint64_t(bins));
  const uint k = uint(plane / uint64_t(p.channels)), channel = uint(plane - uint64_t(k) * uint64_t(p.channels));
  const Region r = region_of(k);
  if (r.image < 0 || r.image >= p.images) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(r.image), int64_t(p.images));
    return;
  }
  const Axis ys = axis_of(r, 0, bin / p.pooled[1]), xs = axis_of(r, 1, bin % p.pooled[1]);
  const uint64_t from = (uint64_t(r.image) * uint64_t(p.channels) + uint64_t(channel)) *
      uint64_t(p.size[0]) * uint64_t(p.size[1]);
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
  STORE(p.out_, id, DTYPE, sum / REAL(count_of(ys, xs)));
}
