#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels_random.gen.h"
#include "ops/random/random.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/generator.h"

namespace aule::ops {

std::tuple<at::Tensor, at::Tensor> sample(const at::Tensor& logits, const SampleOptions& options,
                                          OptionalGenerator generator) {
  constexpr const char* kName = "sample";
  const auto type = logits.scalar_type();
  TORCH_CHECK(logits.dim() == 2 && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16), kName,
              ": expected logits [rows, tokens] of float32, float16 or bfloat16, but got ", logits.sizes(), " of ",
              type);
  const int64_t rows = logits.size(0), n = logits.size(1);
  const at::Tensor token = at::empty({rows}, logits.options().dtype(at::kLong));
  const at::Tensor log_probability = at::empty({rows}, logits.options().dtype(at::kFloat));
  TORCH_CHECK(rows == 0 || (n > 0 && n < int64_t{1} << 31), kName, ": expected 1 to 2^31 - 1 tokens, but got ", n);

  TensorArgs args;
  SampleParams p{};
  const auto number = [&](const char* what, const std::optional<at::Tensor>& t, at::ScalarType wanted,
                          uint64_t& address, uint32_t& stride) {
    if (!t || !t->defined()) return;
    check_same_device(kName, {&logits, &*t});
    TORCH_CHECK(t->scalar_type() == wanted && t->dim() <= 1 && (t->numel() == 1 || t->numel() == rows), kName,
                ": expected ", what, " to be one number or ", rows, " of ", wanted, ", but got ", t->sizes(), " of ",
                t->scalar_type());
    if (rows == 0) return;
    address = args.read(*t);
    stride = t->numel() == 1 ? 0 : static_cast<uint32_t>(t->stride(0));
  };
  number("temperature", options.temperature, at::kFloat, p.temperature, p.temperature_stride);
  number("top_k", options.top_k, at::kInt, p.top_k, p.top_k_stride);
  number("top_p", options.top_p, at::kFloat, p.top_p, p.top_p_stride);
  number("min_p", options.min_p, at::kFloat, p.min_p, p.min_p_stride);
  number("repetition_penalty", options.repetition, at::kFloat, p.repetition, p.repetition_stride);
  number("presence_penalty", options.presence, at::kFloat, p.presence, p.presence_stride);
  number("frequency_penalty", options.frequency, at::kFloat, p.frequency, p.frequency_stride);
  at::Tensor counts;
  if (options.counts && options.counts->defined()) {
    check_same_device(kName, {&logits, &*options.counts});
    TORCH_CHECK(options.counts->scalar_type() == at::kInt && options.counts->sizes() == logits.sizes(), kName,
                ": expected counts of int32 and sizes ", logits.sizes(), ", but got ", options.counts->sizes(), " of ",
                options.counts->scalar_type());
    counts = options.counts->contiguous();
  }
  if (rows == 0) return {token, log_probability};

  const at::Tensor dense = logits.stride(1) == 1 || n == 1 ? logits : logits.contiguous();
  const DeviceProfile& profile = profile_of(logits);
  uint32_t local = std::min(1024u, profile.max_workgroup_invocations);
  while ((local & (local - 1)) != 0) local &= local - 1;  // a power of two
  while (local > 32 && int64_t{local} / 2 >= n) local /= 2;
  if (profile.is_software()) local = std::min(local, 64u);
  // Four turns for a digit of each of two thresholds, and three more, of the longest invocation.
  check_walk(kName, profile, uint64_t{11} * (static_cast<uint64_t>(n) / local + 1) + uint64_t{2048});
  const uint64_t quads = (static_cast<uint64_t>(n) + 3) / 4;
  auto& stream = current(logits);
  p.logits = args.read(dense);
  p.token = args.write(token);
  p.log_probability = args.write(log_probability);
  if (counts.defined()) p.counts = args.read(counts);
  runtime::philox_for(generator, static_cast<int>(logits.get_device()), 4).put_into(p);
  p.row_stride = dense.stride(0);
  p.rows = static_cast<uint32_t>(rows);
  p.n = static_cast<uint32_t>(n);
  TORCH_CHECK(quads * static_cast<uint64_t>(rows) <= uint64_t{1} << 62, kName, ": too many elements");
  launch(stream, kernel::sample(), {.local = local, .dtype = dtype_of(dense, kName), .counts = counts.defined()}, p,
         args, linear_grid(static_cast<uint64_t>(rows)));
  return {token, log_probability};
}

}  // namespace aule::ops
