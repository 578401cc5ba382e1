#include "ops/tensor/overlap.h"

#include <algorithm>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

ByteRange range_of(const at::Tensor& t) {
  const uint64_t begin = address_of(t);
  if (t.numel() == 0) return {begin, begin};
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {begin, begin + static_cast<uint64_t>(last + 1) * t.element_size()};
}

bool apart(std::vector<ByteRange> written, const std::vector<ByteRange>& read) {
  std::erase_if(written, [](const ByteRange& r) { return r.begin == r.end; });
  std::sort(written.begin(), written.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < written.size(); ++i)
    if (written[i].begin < written[i - 1].end) return false;
  return std::none_of(read.begin(), read.end(), [&](const ByteRange& r) {
    if (r.begin == r.end) return false;
    const auto after = std::upper_bound(written.begin(), written.end(), r.begin,
                                        [](uint64_t at, const ByteRange& x) { return at < x.end; });
    return after != written.end() && after->begin < r.end;
  });
}

}  // namespace aule::ops
