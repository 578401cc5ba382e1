// Region of interest and its bins, for roi_align.comp and roi_align_backward.comp, which have declared Params and the
// constants: He et al. 2017 (arXiv:1703.06870), section 3.
#include "detection/bilinear.glsl"
#include "detection/regions.glsl"

struct Axis {
  REAL start, step;   // of the samples of a bin
  int samples;        // of a bin
  int first, last;    // those that are not outside the image
};
struct Region {
  REAL start[2], bin[2];  // y, x
  int samples[2];
};

Region region_of(uint k) {
  const uint64_t at = uint64_t(k) * 5;
  Region r;
  const REAL shift = ALIGNED ? REAL(0.5) : REAL(0), scale = REAL_OF_BITS(p.scale);
  for (int d = 0; d < 2; ++d) {
    const REAL from = LOAD(p.rois, at + uint64_t(2 - d), DTYPE) * scale - shift;
    const REAL to = LOAD(p.rois, at + uint64_t(4 - d), DTYPE) * scale - shift;
    const REAL size = ALIGNED ? to - from : max(to - from, REAL(1));
    r.start[d] = from;
    r.bin[d] = size / REAL(p.pooled[d]);
    r.samples[d] = p.sampling_ratio > 0 ? p.sampling_ratio : int(min(ceil(r.bin[d]), REAL(1 << 24)));
  }
  return r;
}

// Samples of bin `i` along dimension d. Those outside [-1, size] count, and add nothing; they are passed over here,
// because a region may be far larger than the image.
Axis axis_of(Region r, int d, int i) {
  Axis a;
  a.samples = r.samples[d];
  a.step = r.bin[d] / REAL(max(a.samples, 1));
  a.start = r.start[d] + REAL(i) * r.bin[d] + REAL(0.5) * a.step;
  a.first = 0;
  a.last = a.samples;
  if (a.step > REAL(0)) {
    const REAL most = REAL(a.samples);
    a.first = int(clamp(floor((REAL(-1) - a.start) / a.step) - REAL(1), REAL(0), most));
    a.last = int(clamp(ceil((REAL(p.size[d]) - a.start) / a.step) + REAL(2), REAL(0), most));
  }
  // Samples by the bin's cells are at least half a cell apart: the bound holds, and ends the loops of a NaN.
  if (p.sampling_ratio <= 0) a.last = min(a.last, a.first + 2 * p.size[d] + 8);
  return a;
}

// The place of sample i inside the image: between its first and its last cell. False where it adds nothing.
bool place_of(Axis a, int d, int i, out REAL place) {
  const REAL at = a.start + REAL(i) * a.step;
  place = clamp(at, REAL(0), REAL(p.size[d] - 1));
  return at >= REAL(-1) && at <= REAL(p.size[d]);
}

// Samples of a bin, as numbers whose product may pass an integer's range. Of none POSITIONS makes NaN, as torchvision.
REAL count_of(Axis y, Axis x) {
  const REAL count = REAL(y.samples) * REAL(x.samples);
  return POSITIONS ? count : max(count, REAL(1));
}
