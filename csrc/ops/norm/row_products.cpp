#include "ops/norm/row_products.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels_norm.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum Kind : int { kScale, kScaleAndDot, kDot };

constexpr int64_t kManyRows = 4096;  // with a quarter as many workgroups, devices are still busy

// Operands of row_products.comp; undefined tensors are not used by the kind. x and y: [rows, n], or one row for all.
struct RowProducts {
  Kind kind;
  int64_t rows, n;
  at::Tensor x{}, y{}, a{}, out{}, sums{}, shift{};
};

at::ScalarType sum_type(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

void launch_row_products(const char* op, const RowProducts& r) {
  if (r.rows == 0) return;
  const Caps& caps = caps_of(r.x);
  const bool is_software = caps.is_software();
  uint32_t local = is_software ? caps.subgroup_size : 32;
  while (!is_software && local < 256 && local * 16 < r.n) local *= 2;
  check_walk(op, caps, ceil_div(static_cast<uint64_t>(r.n), local * 4) * 2 + 64);
  TensorArgs args;
  RowProductsParams p{};
  bool vec4 = r.n % 4 == 0, has_halves = false;
  const auto row_stride = [&](const at::Tensor& t) { return t.size(0) == 1 && r.rows > 1 ? int64_t{0} : r.n; };
  const auto dtype = [&](const at::Tensor& t, uint64_t address) {
    if (!t.defined()) return DType::f32;
    vec4 = vec4 && address % 16 == 0 && t.scalar_type() != at::kDouble;
    has_halves = has_halves || t.element_size() == 2;
    return dtype_of(t, op);
  };
  p.x = args.read(r.x);
  p.x_row = row_stride(r.x);
  if (r.y.defined()) p.y = args.read(r.y), p.y_row = row_stride(r.y);
  if (r.a.defined()) p.a = args.read(r.a);
  if (r.out.defined()) p.out_ = args.write(r.out);
  if (r.sums.defined()) p.sums = args.write(r.sums);
  if (r.shift.defined()) p.shift = args.read(r.shift);
  p.rows = static_cast<uint64_t>(r.rows);
  p.n = static_cast<uint32_t>(r.n);
  p.has_shift = r.shift.defined();
  const DType x = dtype(r.x, p.x), y = dtype(r.y, p.y), out = dtype(r.out, p.out_);
  const int vec = !vec4 ? 0 : has_halves && r.n % 8 == 0 ? 2 : 1;
  // Loads of y, and barriers, are those of a workgroup: a row of its own would wait for them longer than for x.
  const int rows = r.kind == kDot && p.y_row == 0 && r.rows >= kManyRows && local >= 4 ? 4 : 1;
  const DType arithmetic = sum_type(r.x) == at::kDouble ? DType::f64 : DType::f32;
  launch(current(r.x), kernel::row_products(arithmetic),
         {.x_dtype = x,
          .y_dtype = y,
          .a_dtype = r.a.defined() ? dtype_of(r.a, op) : DType::f32,
          .out_dtype = out,
          .sum_dtype = r.sums.defined() ? dtype_of(r.sums, op) : DType::f32,
          .kind = static_cast<int>(r.kind),
          .vec = vec,
          .local = static_cast<int>(local),
          .rows = rows,
          .is_full = vec != 0 && r.n % (16 * static_cast<int64_t>(local)) == 0},
         p, args, linear_grid(ceil_div(p.rows, static_cast<uint64_t>(rows))));
}

void check_diagonal(const at::Tensor& a, const at::Tensor& b) {
  const char* op = "diagonal_matmul";
  TORCH_CHECK_VALUE(a.dim() == 1 && b.dim() == 2 && a.size(0) == b.size(0), op,
                    ": expected a of shape [n] and b of shape [n, m], but got ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected a and b of one dtype, but got ", a.scalar_type(),
              " and ", b.scalar_type());
  TORCH_CHECK(a.device() == b.device(), op, ": expected a and b on one device, but they are on ", a.device(), " and ",
              b.device());
}

void check_rowsum(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  const char* op = "fused_linear_rowsum";
  TORCH_CHECK_VALUE(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1), op,
                    ": expected x of shape [..., in] and weight of shape [out, in], but got ", x.sizes(), " and ",
                    weight.sizes());
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), op, ": expected x and weight of one dtype, but got ",
              x.scalar_type(), " and ", weight.scalar_type());
  TORCH_CHECK(x.device() == weight.device(), op, ": expected x and weight on one device, but they are on ", x.device(),
              " and ", weight.device());
  if (!bias) return;
  TORCH_CHECK_VALUE(bias->dim() == 1 && bias->size(0) == weight.size(0), op, ": expected bias of shape [",
                    weight.size(0), "], but got ", bias->sizes());
  TORCH_CHECK(bias->scalar_type() == x.scalar_type() && bias->device() == x.device(), op,
              ": expected bias of the dtype and on the device of x");
}

std::vector<int64_t> without_last(const at::Tensor& x) { return {x.sizes().begin(), x.sizes().end() - 1}; }

// Column sums as one row, in the type of arithmetic.
at::Tensor column_sums(const at::Tensor& weight) {
  return at::sum(weight, at::IntArrayRef{0}, /*keepdim=*/true, sum_type(weight)).contiguous();
}

}  // namespace

at::Tensor diagonal_matmul(const at::Tensor& a, const at::Tensor& b) {
  check_floating("diagonal_matmul", b);
  check_diagonal(a, b);
  const at::Tensor out = at::empty(b.sizes(), b.options());
  if (b.numel() > 0)
    launch_row_products(
        "diagonal_matmul",
        {.kind = kScale, .rows = b.size(0), .n = b.size(1), .x = b.contiguous(), .a = a.contiguous(), .out = out});
  return out;
}

std::tuple<at::Tensor, at::Tensor> diagonal_matmul_backward(const at::Tensor& grad, const at::Tensor& a,
                                                            const at::Tensor& b) {
  const at::Tensor da = at::empty(a.sizes(), a.options()), db = at::empty(b.sizes(), b.options());
  if (b.numel() == 0) return {da.zero_(), db};
  launch_row_products("diagonal_matmul_backward", {.kind = kScaleAndDot,
                                                   .rows = b.size(0),
                                                   .n = b.size(1),
                                                   .x = grad.contiguous(),
                                                   .y = b.contiguous(),
                                                   .a = a.contiguous(),
                                                   .out = db,
                                                   .sums = da});
  return {da, db};
}

at::Tensor diagonal_matmul_composed(const at::Tensor& a, const at::Tensor& b) {
  check_diagonal(a, b);
  return at::mul(a.unsqueeze(1), b);
}
std::tuple<at::Tensor, at::Tensor> diagonal_matmul_backward_composed(const at::Tensor& grad, const at::Tensor& a,
                                                                     const at::Tensor& b) {
  return {at::mul(grad, b).sum(1), at::mul(a.unsqueeze(1), grad)};
}

at::Tensor fused_linear_rowsum(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  check_floating("fused_linear_rowsum", x);
  check_rowsum(x, weight, bias);
  const at::Tensor out = at::empty(without_last(x), x.options());
  if (out.numel() == 0) return out;
  const int64_t n = x.size(-1);
  const at::Tensor shift = bias ? at::sum(*bias, at::IntArrayRef{0}, /*keepdim=*/true, sum_type(x)) : at::Tensor();
  if (n == 0) return bias ? out.copy_(shift.expand(out.sizes())) : out.zero_();
  launch_row_products("fused_linear_rowsum", {.kind = kDot,
                                              .rows = out.numel(),
                                              .n = n,
                                              .x = x.contiguous().view({out.numel(), n}),
                                              .y = column_sums(weight),
                                              .sums = out,
                                              .shift = shift});
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_linear_rowsum_backward(const at::Tensor& grad, const at::Tensor& x,
                                                                            const at::Tensor& weight, bool has_bias) {
  const int64_t n = x.size(-1), rows = grad.numel();
  const at::Tensor g = grad.contiguous().view({rows}), dx = at::empty(x.sizes(), x.options());
  if (dx.numel() > 0)
    launch_row_products(
        "fused_linear_rowsum_backward",
        {.kind = kScale, .rows = rows, .n = n, .x = column_sums(weight), .a = g, .out = dx.view({rows, n})});
  // Every row of the weight has the same gradient.
  const at::Tensor row = at::mv(x.reshape({rows, n}).t(), g);
  at::Tensor dbias = at::empty({0}, x.options());
  if (has_bias) dbias = at::sum(g).expand({weight.size(0)}).contiguous();
  return {dx, row.expand(weight.sizes()).contiguous(), dbias};
}

at::Tensor fused_linear_rowsum_composed(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  check_rowsum(x, weight, bias);
  const at::Tensor sums = column_sums(weight).squeeze(0);
  at::Tensor out = at::mul(x.to(sums.scalar_type()), sums).sum(-1);
  if (bias) out = at::add(out, at::sum(*bias, sums.scalar_type()));
  return out.to(x.scalar_type());
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_linear_rowsum_backward_composed(const at::Tensor& grad,
                                                                                     const at::Tensor& x,
                                                                                     const at::Tensor& weight,
                                                                                     bool has_bias) {
  const at::Tensor sums = column_sums(weight).squeeze(0), wide = grad.to(sums.scalar_type());
  const at::Tensor row = at::mv(x.reshape({grad.numel(), x.size(-1)}).to(sums.scalar_type()).t(), wide.reshape({-1}));
  at::Tensor dbias = at::empty({0}, x.options());
  if (has_bias) dbias = at::sum(wide).to(x.scalar_type()).expand({weight.size(0)}).contiguous();
  return {at::mul(wide.unsqueeze(-1), sums).to(x.scalar_type()),
          row.to(x.scalar_type()).expand(weight.sizes()).contiguous(), dbias};
}

}  // namespace aule::ops
