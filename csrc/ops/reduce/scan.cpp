#include "ops/reduce/scan.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/WrapDimUtils.h>

#include "kernels_reduce.gen.h"
#include "ops/reduce/scan_plan.h"
#include "ops/tensor/floating.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

enum class ScanOp : int {
#define SCAN_OP(code, name) name = code,
#include "reduce/scan_ops.def"
#undef SCAN_OP
};

// An upper bound of a complex128 logaddexp's: the series of its functions are loops.
constexpr uint64_t kTurnsOfComplex128 = 128;

enum class Pass : int { whole_rows, totals, prefixes, results };  // of scan.comp

ScanProblem rows_of(const at::Tensor& x, int64_t dim) {
  ScanProblem rows;
  if (x.dim() > 0) rows.n = x.size(dim);
  for (int64_t d = dim + 1; d < x.dim(); ++d) rows.inner *= x.size(d);
  rows.rows = x.numel() / rows.n;
  return rows;
}

// The type that a result of this dtype is computed in.
DType arithmetic_of(DType result) {
  if (result == DType::f64 || result == DType::c128) return result;
  return is_complex(result) ? DType::c64 : is_floating(result) ? DType::f32 : DType::i64;
}

// `out2` gets the indices of STATE arg. The kernel takes contiguous tensors. Others go through copies.
void scan(const char* name, ScanSTATE state, ScanOp op, const at::Tensor& self, int64_t dim, const at::Tensor& out,
          const at::Tensor& out2 = {}) {
  check_same_device(name, {&self, &out, &out2});
  dim = at::maybe_wrap_dim(dim, self.dim());
  // Declines before the copies below are recorded, as does the planner.
  const bool is_complex_scan = state != ScanSTATE::arg && out.is_complex();
  if (!is_complex_scan) dtype_of(self, name), dtype_of(out, name);
  const DType result = real_or_complex_dtype_of(out.scalar_type(), name), c = arithmetic_of(result);
  TORCH_CHECK_NOT_IMPLEMENTED(supports(out.device().index(), kernel::scan(c, state, 0).id), name,
                              ": this device has no float64 arithmetic");
  if (self.numel() == 0) return;
  ScanProblem rows = rows_of(self, dim);
  if (state == ScanSTATE::lse && c == DType::c128) rows.turns = kTurnsOfComplex128;
  const DeviceProfile& profile = profile_of(self);
  const auto plan = scan_plan(profile, rows);
  TORCH_CHECK_NOT_IMPLEMENTED(plan.has_value(), name, ": rows of ", rows.n, " elements need longer loops than the ",
                              profile.max_loop_iterations, " iterations after which this device's driver ends them (",
                              profile.driver_name, " ", profile.driver_info, ")");
  // The kernel does not convert float64 to integers: its arithmetic type is that of the output.
  const bool narrows = self.scalar_type() == at::kDouble && out.scalar_type() != at::kDouble;
  const at::Tensor x = (narrows || is_complex_scan ? self.to(out.scalar_type()) : self).contiguous();
  auto dense = [](const at::Tensor& t) {
    return !t.defined() || t.is_contiguous() ? t : at::empty(t.sizes(), t.options());
  };
  const at::Tensor y = dense(out), y2 = dense(out2);

  const DType in = real_or_complex_dtype_of(x.scalar_type(), name);
  ScanParams p{};
  p.rows = rows.rows;
  p.n = rows.n;
  p.inner = rows.inner;
  p.chunk = plan->chunk;
  p.chunks = plan->chunks;

  auto& stream = current(x);
  auto go = [&](Pass pass, bool by_workgroup, uint32_t local, const Grid& grid, const TensorArgs& args) {
    launch(stream, kernel::scan(c, state, by_workgroup ? 1 : 0),
           {.in_dtype = in,
            .out_dtype = result,
            .op = static_cast<int>(op),
            .pass = static_cast<int>(pass),
            .local = local},
           p, args, grid);
  };
  auto results = [&](TensorArgs& args) {
    p.in_ = args.read(x);
    p.out_ = args.write(y);
    if (y2.defined()) p.out2 = args.write(y2);
  };
  if (!plan->prefixes) {
    TensorArgs args;
    results(args);
    go(Pass::whole_rows, plan->by_workgroup, plan->local, plan->grid, args);
  } else {
    at::Tensor scratch = at::empty({static_cast<int64_t>(16 * p.chunks * p.rows)}, x.options().dtype(at::kByte));
    TensorArgs totals, prefixes, last;
    p.in_ = totals.read(x);
    p.scratch = totals.write(scratch);
    go(Pass::totals, plan->by_workgroup, plan->local, plan->grid, totals);
    prefixes.read_write(scratch);
    go(Pass::prefixes, false, plan->prefixes->local, plan->prefixes->grid, prefixes);
    results(last);
    last.read(scratch);
    go(Pass::results, plan->by_workgroup, plan->local, plan->grid, last);
  }
  if (!y.is_same(out)) out.copy_(y);
  if (out2.defined() && !y2.is_same(out2)) out2.copy_(y2);
}

}  // namespace

at::Tensor& cumsum_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  if (self.is_complex() && !out.is_complex()) return ops::cumsum_out(self.to(out.scalar_type()), dim, dtype, out);
  scan("cumsum", ScanSTATE::value, ScanOp::sum, self, dim, out);
  return out;
}
at::Tensor& cumprod_out(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  if (self.is_complex() && !out.is_complex()) return ops::cumprod_out(self.to(out.scalar_type()), dim, dtype, out);
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
  if (!self.is_complex()) check_floating("logcumsumexp", self);
  at::native::resize_output(out, self.sizes());
  scan("logcumsumexp", ScanSTATE::lse, ScanOp::sum, self, dim, out);
  return out;
}

}  // namespace aule::ops
