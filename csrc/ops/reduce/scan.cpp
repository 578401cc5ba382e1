#include "ops/reduce/scan.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>

#include "kernels_reduce.gen.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class ScanOp : int {
#define SCAN_OP(code, name) name = code,
#include "reduce/scan_ops.def"
#undef SCAN_OP
};

// `out2` gets the indices of STATE arg. The kernel takes contiguous tensors. Others go through copies.
void scan(const char* name, ScanSTATE state, ScanOp op, const at::Tensor& self, int64_t dim, const at::Tensor& out,
          const at::Tensor& out2 = {}) {
  check_same_device(name, {&self, &out, &out2});
  dim = at::maybe_wrap_dim(dim, self.dim());
  dtype_of(self, name), dtype_of(out, name);  // decline before the copies below are recorded
  if (self.numel() == 0) return;
  // The kernel does not convert float64 to integers: its arithmetic type is that of the output.
  const at::Tensor x =
      (self.scalar_type() == at::kDouble && out.scalar_type() != at::kDouble ? self.to(out.scalar_type()) : self)
          .contiguous();
  auto dense = [](const at::Tensor& t) {
    return !t.defined() || t.is_contiguous() ? t : at::empty(t.sizes(), t.options());
  };
  const at::Tensor y = dense(out), y2 = dense(out2);

  const DType in = dtype_of(x, name), result = dtype_of(y, name);
  const DType c = result == DType::f64 ? DType::f64 : is_floating(result) ? DType::f32 : DType::i64;
  ScanParams p{};
  p.n = x.dim() == 0 ? 1 : x.size(dim);
  p.inner = 1;
  for (int64_t d = dim + 1; d < x.dim(); ++d) p.inner *= x.size(d);
  p.rows = x.numel() / p.n;
  const Caps& caps = caps_of(x);
  const bool cpu = caps.is_software();
  const bool group = !cpu && p.inner == 1 && p.n >= 32;
  const uint32_t local = group ? 256 : cpu ? 8 : 64;
  // If rows do not fill the device, chunks do. A chunk is long enough to pay for the second read.
  const uint64_t wanted = (cpu ? 32 : group ? 512 : 16384) / p.rows, shortest = group ? 4096 : 256;
  uint64_t chunks = std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(1, p.n / shortest));
  if (walks_limited(caps)) {  // a workgroup takes a tile of `local` elements in 1 + log2(local) iterations
    const uint64_t walk = longest_walk(caps), longest = group ? std::max<uint64_t>(1, walk / 9) * local : walk;
    chunks = std::max<uint64_t>(chunks, ceil_div(p.n, longest));
    check_walk(name, caps, chunks);
  }
  p.chunk = (p.n + chunks - 1) / chunks;
  p.chunks = (p.n + p.chunk - 1) / p.chunk;

  auto& stream = current(x);
  auto go = [&](int pass, bool by_group, uint64_t work, const TensorArgs& args) {
    const uint32_t size = by_group ? local : group ? 8 : local;
    launch(stream, kernel::scan(c, state, by_group ? 1 : 0),
           {.in_dtype = in, .out_dtype = result, .op = static_cast<int>(op), .pass = pass, .local = size}, p, args,
           linear_grid(by_group ? work : ceil_div(work, size)));
  };
  auto results = [&](TensorArgs& args) {
    p.in_ = args.read(x);
    p.out_ = args.write(y);
    if (y2.defined()) p.out2 = args.write(y2);
  };
  if (p.chunks == 1) {
    TensorArgs args;
    results(args);
    go(0, group, p.rows, args);
  } else {
    at::Tensor scratch = at::empty({static_cast<int64_t>(16 * p.chunks * p.rows)}, x.options().dtype(at::kByte));
    TensorArgs totals, prefixes, last;
    p.in_ = totals.read(x);
    p.scratch = totals.write(scratch);
    go(1, group, p.rows * p.chunks, totals);
    prefixes.read_write(scratch);
    go(2, false, p.rows, prefixes);
    results(last);
    last.read(scratch);
    go(3, group, p.rows * p.chunks, last);
  }
  if (!y.is_same(out)) out.copy_(y);
  if (out2.defined() && !y2.is_same(out2)) out2.copy_(y2);
}

}  // namespace

at::Tensor& cumsum_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  scan("cumsum", ScanSTATE::value, ScanOp::sum, self, dim, out);
  return out;
}
at::Tensor& cumprod_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  scan("cumprod", ScanSTATE::value, ScanOp::prod, self, dim, out);
  return out;
}
void cummax_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan("cummax", ScanSTATE::arg, ScanOp::max, self, dim, values, indices);
}
void cummin_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan("cummin", ScanSTATE::arg, ScanOp::min, self, dim, values, indices);
}
at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim) {
  at::Tensor out = at::empty(self.sizes(), self.options());
  return ops::logcumsumexp_out(self, dim, out);
}
at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  check_floating("logcumsumexp", self);
  at::native::resize_output(out, self.sizes());
  scan("logcumsumexp", ScanSTATE::lse, ScanOp::sum, self, dim, out);
  return out;
}

}  // namespace aule::ops
