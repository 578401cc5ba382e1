#include "ops/conv/channels_last.h"

#include <ATen/ops/empty.h>

#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

at::Tensor channels_last(const at::Tensor& t) {
  at::Tensor last = t.movedim(1, -1);
  while (last.dim() < 5) last = last.unsqueeze(1);
  const int64_t vec = 16 / t.element_size(), channels = last.size(4), padded = round_up(channels, vec);
  if (padded == channels && (!last.is_contiguous() || address_of(last) % 16 == 0)) return last.contiguous();
  at::Tensor out = at::empty({last.size(0), last.size(1), last.size(2), last.size(3), padded}, t.options());
  if (padded != channels) out.narrow(4, channels, padded - channels).zero_();
  out.narrow(4, 0, channels).copy_(last);
  return out;
}

at::Tensor channels_first(const at::Tensor& last, int64_t dims) {
  at::Tensor t = last;
  while (t.dim() > dims) t = t.squeeze(1);
  return t.movedim(-1, 1);
}

}  // namespace aule::ops
