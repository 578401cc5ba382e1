#include "distributed/staging.h"

#include <ATen/ops/empty.h>

namespace aule::distributed {

at::Tensor device_buffer(int64_t bytes, c10::Device device) {
  return at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}

at::Tensor slice(const at::Tensor& buffer, int64_t offset_bytes, int64_t elements, at::ScalarType dtype) {
  const int64_t bytes = elements * static_cast<int64_t>(c10::elementSize(dtype));
  return buffer.narrow(0, offset_bytes, bytes).view(dtype);
}

void pack(const Part& part, const std::optional<Factor>& factor) {
  if (part.tensor.numel() == 0 || part.flat.empty()) return;
  at::Tensor flat = part.tensor.resolve_conj().resolve_neg().contiguous().view({-1});
  if (factor) flat = factor->tensor.defined() ? flat.mul(factor->tensor) : flat.mul(factor->number);
  flat = flat.to(part.flat.front().scalar_type());
  int64_t begin = 0;
  for (const at::Tensor& host : part.flat) {
    host.copy_(flat.narrow(0, begin, host.numel()), /*non_blocking=*/true);
    begin += host.numel();
  }
}

void unpack(const Part& part, int64_t divisor) {
  const at::Tensor& tensor = part.tensor;
  if (tensor.numel() == 0) return;
  if (part.flat.empty()) {  // the result is there
  } else if (part.flat.size() == 1) {
    tensor.copy_(part.flat.front().view(tensor.sizes()), /*non_blocking=*/true);
  } else {
    const bool direct = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
    at::Tensor flat = direct ? tensor.view({-1}) : at::empty({tensor.numel()}, tensor.options());
    int64_t begin = 0;
    for (const at::Tensor& host : part.flat) {
      flat.narrow(0, begin, host.numel()).copy_(host, /*non_blocking=*/true);
      begin += host.numel();
    }
    if (!direct) tensor.copy_(flat.view(tensor.sizes()));
  }
  if (divisor == 1) return;
  const bool cut = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  at::Tensor(tensor).div_(divisor, cut ? std::optional<c10::string_view>("trunc") : std::nullopt);
}

}  // namespace aule::distributed
