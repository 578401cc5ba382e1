// Bins of regions, and the image of a region, for the kernels of roi_align and roi_pool. Include after Params and the
// constants. POSITIONS: each bin has channels of its own, as in Dai et al. 2016 (arXiv:1605.06409).
#ifndef AULE_REGIONS_GLSL
#define AULE_REGIONS_GLSL
struct Bin {
  uint region, channel;  // channel: of the image
  int y, x;
};

uint bins_of_region() { return uint(p.pooled[0] * p.pooled[1]); }

Bin bin_at(uint region, uint channel, uint at) {
  return Bin(region, channel, int(at) / p.pooled[1], int(at) % p.pooled[1]);
}

// The bin that element `id` of [regions, channels, pooled height, pooled width] is for.
Bin bin_of(uint64_t id) {
  const uint bins = bins_of_region(), channels = POSITIONS ? p.channels / bins : p.channels;
  const uint64_t row = id / uint64_t(bins);
  const uint at = uint(id - row * uint64_t(bins)), region = uint(row / uint64_t(channels));
  const uint channel = uint(row - uint64_t(region) * uint64_t(channels));
  return bin_at(region, POSITIONS ? channel * bins + at : channel, at);
}

int image_of(uint region) { return int(LOAD(p.rois, uint64_t(region) * 5, DTYPE)); }

// The first element of a plane of the images.
uint64_t plane_of(int image, uint channel) {
  return (uint64_t(image) * uint64_t(p.channels) + uint64_t(channel)) * uint64_t(p.size[0]) * uint64_t(p.size[1]);
}
#endif
