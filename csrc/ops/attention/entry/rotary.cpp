#include "ops/attention/entry/rotary.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>

#include <array>

#include "kernels_attention.gen.h"
#include "ops/tensor/device_assert.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

constexpr const char* kName = "rotary_embedding";

void check(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& positions) {
  check_same_device(kName, {&x, &cos, &sin, &positions});
  for (const at::Tensor* t : {&x, &cos, &sin}) {
    const auto type = t->scalar_type();
    TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, kName,
                ": expected float32, float16 or bfloat16, but got ", type);
  }
  TORCH_CHECK(x.dim() >= 2 && x.dim() <= 4, kName,
              ": expected x of shape [batch, heads, tokens, size], or without the first ones, but got ", x.sizes());
  TORCH_CHECK(cos.dim() == 2 && sin.sizes() == cos.sizes() && sin.scalar_type() == cos.scalar_type(), kName,
              ": expected cos and sin of one dtype and one shape [rows, half], but got ", cos.sizes(), " and ",
              sin.sizes());
  TORCH_CHECK(cos.size(1) > 0 && 2 * cos.size(1) <= x.size(-1), kName, ": tables of ", cos.size(1),
              " columns turn twice as many elements, but x has ", x.size(-1), " in its last dimension");
  const int64_t tokens = x.size(-2);
  if (!positions.defined()) {
    TORCH_CHECK(tokens <= cos.size(0), kName, ": x has ", tokens, " tokens, but the tables have ", cos.size(0),
                " rows");
    return;
  }
  const auto type = positions.scalar_type();
  TORCH_CHECK(type == at::kLong || type == at::kInt, kName, ": expected positions of int64 or int32, but got ", type);
  const bool each = positions.dim() == 2 && x.dim() == 4 && positions.size(0) == x.size(0);
  TORCH_CHECK((positions.dim() == 1 || each) && positions.size(-1) == tokens, kName,
              ": expected positions of shape [tokens] or [batch, tokens], but got ", positions.sizes(), " for x of ",
              x.sizes());
}

// Batch, heads, tokens; where x has no such dimension, 1 and 0.
std::array<int64_t, 3> sizes_of(const at::Tensor& t) {
  return {t.dim() > 3 ? t.size(0) : 1, t.dim() > 2 ? t.size(-3) : 1, t.size(-2)};
}
std::array<int64_t, 3> strides_of(const at::Tensor& t) {
  return {t.dim() > 3 ? t.stride(0) : 0, t.dim() > 2 ? t.stride(-3) : 0, t.stride(-2)};
}

bool aligned(const at::Tensor& t, int64_t elements) {
  const int64_t bytes = elements * static_cast<int64_t>(t.element_size());
  bool all = address_of(t) % 16 == 0 && bytes % 16 == 0;
  for (const int64_t stride : strides_of(t)) all = all && stride * static_cast<int64_t>(t.element_size()) % 16 == 0;
  return all;
}

void run(const at::Tensor& x, const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin,
         const at::Tensor& positions, bool interleaved, bool inverse) {
  if (x.numel() == 0) return;
  const at::Tensor c = cos.contiguous(), s = sin.contiguous();  // small beside x
  const at::Tensor rows = positions.defined() ? positions.contiguous() : at::Tensor();
  const auto [batch, heads, tokens] = sizes_of(x);
  const int64_t half = c.size(1), rest = x.size(-1) - 2 * half, wide = 16 / static_cast<int64_t>(x.element_size());
  const bool blocks = half % wide == 0 && rest % (2 * wide) == 0 && aligned(x, wide) && aligned(y, wide) &&
                      address_of(c) % 16 == 0 && address_of(s) % 16 == 0 &&
                      half * static_cast<int64_t>(c.element_size()) % 16 == 0;
  const int64_t w = blocks ? wide : 1;
  TORCH_CHECK(rest % (2 * w) == 0, kName, ": expected an even size, but got x of ", x.sizes());
  const int64_t tasks = half / w + rest / (2 * w), total = batch * heads * tokens * tasks;
  TORCH_CHECK(total <= 0xffffffffll && c.size(0) <= 0xffffffffll, kName, ": too many elements: ", x.sizes());

  auto& stream = current(x);
  TensorArgs args;
  RotaryParams p{};
  p.x = args.read(x);
  p.y = args.write(y);
  p.cosines = args.read(c);
  p.sines = args.read(s);
  if (rows.defined()) {
    p.positions = args.read(rows);
    p.position_stride = rows.dim() == 2 ? static_cast<uint32_t>(tokens) : 0;
  }
  p.error = error_address(stream);
  const auto from = strides_of(x), to = strides_of(y);
  for (int d = 0; d < 3; ++d) p.sx[d] = from[d], p.sy[d] = to[d];
  p.total = static_cast<uint32_t>(total);
  p.tasks = static_cast<uint32_t>(tasks);
  p.turning = static_cast<uint32_t>(half / w);
  p.tokens = static_cast<uint32_t>(tokens);
  p.heads = static_cast<uint32_t>(heads);
  p.table_rows = static_cast<uint32_t>(c.size(0));
  p.tag = error_tag(kName);
  const RotarySpec spec{.dtype = dtype_of(x, kName),
                        .table_dtype = dtype_of(c, kName),
                        .position_dtype = rows.defined() ? dtype_of(rows, kName) : DType::i64,
                        .positions = rows.defined(),
                        .interleaved = interleaved,
                        .inverse = inverse,
                        .w = static_cast<int>(w),
                        .by_token = from[1] < from[2]};
  launch(stream, kernel::rotary(), spec, p, args, linear_grid(ceil_div(total, RotaryParams::kLocal)));
}

}  // namespace

at::Tensor rotary_embedding(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const std::optional<at::Tensor>& positions, bool interleaved, bool inverse) {
  const at::Tensor rows = positions.value_or(at::Tensor());
  check(x, cos, sin, rows);
  const at::Tensor dense = x.stride(-1) == 1 ? x : x.contiguous();
  at::Tensor y = at::empty_like(dense);
  if (y.stride(-1) != 1) y = at::empty_like(dense, at::MemoryFormat::Contiguous);
  run(dense, y, cos, sin, rows, interleaved, inverse);
  return y;
}

void rotary_embedding_(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                       const std::optional<at::Tensor>& positions, bool interleaved, bool inverse) {
  const at::Tensor rows = positions.value_or(at::Tensor());
  check(x, cos, sin, rows);
  at::assert_no_internal_overlap(x);
  TORCH_CHECK(x.stride(-1) == 1, kName, ": in place x must be dense in its last dimension, but its strides are ",
              x.strides());
  run(x, x, cos, sin, rows, interleaved, inverse);
}

}  // namespace aule::ops
