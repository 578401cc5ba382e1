// One invocation of a kernel that scatters the gradients of bins, which has defined spread_bin(bin, image, element of
// grad_out): for an element of grad_out, or, ORDERED, for a plane of grad_in and the regions `first` to `last`.
void spread(uint64_t id) {
  if (!ORDERED) {
    const Bin b = bin_of(id);
    const int image = image_of(b.region);
    if (image >= 0 && image < p.images) spread_bin(b, image, id);
    return;
  }
  const int image = int(id / uint64_t(p.channels));
  const uint channel = uint(id - uint64_t(image) * uint64_t(p.channels));
  const uint bins = bins_of_region(), count = POSITIONS ? 1u : bins;
  for (uint k = p.first; k < p.last; ++k) {
    if (image_of(k) != image) continue;
    const uint64_t row = uint64_t(k) * uint64_t(p.channels) + uint64_t(channel);
    for (uint i = 0u; i < count; ++i)
      spread_bin(bin_at(k, channel, POSITIONS ? channel % bins : i), image, row * uint64_t(count) + uint64_t(i));
  }
}
