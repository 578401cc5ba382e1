#pragma aule axis C float double
#pragma aule feature float64 if C=double
// out[k, c, by, bx] = the largest of the cells of in[image of k, c] in bin (by, bx) of region rois[k] = (image, x1, y1,
// x2, y2), whose corners are multiplied by `scale`, and index[k, c, by, bx] = the first such cell, or -1: Girshick 2015
// (arXiv:1504.08083), section 2.1. POSITIONS: the mean of the bin's cells in channel index[k, c, by, bx], which is
// (c, by, bx): Dai et al. 2016 (arXiv:1605.06409), equation 1. A bin without cells is 0. One invocation per element of
// out. Tensors are contiguous.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
#include "common/errors.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool POSITIONS = false;
struct Params {
  uint64_t in_, rois, out_, index, error;
  uint64_t n;      // invocations
  uint64_t scale;  // bits of the arithmetic type
  int size[2], pooled[2];  // y, x
  int images;
  uint channels, tag;  // channels: of in
};
#include "common/params.glsl"
#include "detection/cells.glsl"

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  const Bin b = bin_of(id);
  const int image = image_of(b.region);
  if (image < 0 || image >= p.images) {
    report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, int64_t(image), int64_t(p.images));
    return;
  }
  // torchvision leaves the last row and column out of the means, though not out of their gradients.
  const int past = POSITIONS ? 1 : 0;
  const ivec2 ys = cells_of(b.region, 0, b.y, p.size[0] - past), xs = cells_of(b.region, 1, b.x, p.size[1] - past);
  const uint64_t from = plane_of(image, b.channel);
  const bool empty = ys.y <= ys.x || xs.y <= xs.x;
  // No NaN and nothing at or below -FLT_MAX is a maximum, also of float64.
  REAL best = empty ? REAL(0) : REAL(uintBitsToFloat(0xff7fffffu)), sum = REAL(0);
  int index = -1;
  for (int y = ys.x; y < ys.y; ++y)
    for (int x = xs.x; x < xs.y; ++x) {
      const int cell = y * p.size[1] + x;
      const REAL v = LOAD(p.in_, from + uint64_t(cell), DTYPE);
      if (POSITIONS) {
        sum += v;
      } else if (!is_nan(v) && v > best) {
        best = v;
        index = cell;
      }
    }
  const REAL mean = empty ? REAL(0) : sum / REAL((ys.y - ys.x) * (xs.y - xs.x));
  STORE(p.out_, id, DTYPE, POSITIONS ? mean : best);
  I32Ref(p.index + id * 4).v = POSITIONS ? int(b.channel) : index;
}
