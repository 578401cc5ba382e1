#include "ops/matmul/kernels/splits.h"

#include <ATen/ops/empty.h>

#include "kernels_matmul.gen.h"

namespace aule::ops {

SplitSums::SplitSums(const GemmCall& call, uint32_t splits)
    : call_(call),
      splits_(splits),
      sums_(at::empty({splits, call.problem.batches, call.problem.m, call.problem.n},
                      call.out.options().dtype(at::kFloat))),
      written_(call.args) {
  written_.write(sums_);
}

void SplitSums::add() const {
  const GemmProblem& g = call_.problem;
  auto p = params_of<GemmSplitsParams>(call_);
  TensorArgs args = call_.args;
  p.a = args.read(sums_);
  p.splits = splits_;
  launch(
      call_.stream(), kernel::gemm_splits(),
      {.dtype = g.result, .has_c = g.has_c, .activation = static_cast<int>(g.activation), .residual = g.has_residual},
      p, args, linear_grid(ceil_div(uint64_t{g.batches} * g.m * ceil_div(g.n, 4), GemmSplitsParams::kLocal)));
}

void add_split_sums(const at::Tensor& sums, const at::Tensor& bias, const at::Tensor& out) {
  GemmSplitsParams p{};
  TensorArgs args;
  p.a = args.read(sums);
  p.out_ = args.write(out);
  if (bias.defined()) p.c = args.read(bias);
  p.splits = static_cast<uint32_t>(sums.size(0));
  p.batches = 1;
  p.m = static_cast<uint32_t>(sums.size(1));
  p.n = static_cast<uint32_t>(sums.size(2));
  p.out_m = static_cast<int32_t>(p.n);
  p.out_n = p.c_n = 1;
  p.alpha = p.beta = 1;
  launch(current(out), kernel::gemm_splits(), {.dtype = dtype_of(out, "convolution"), .has_c = bias.defined()}, p, args,
         linear_grid(ceil_div(uint64_t{p.m} * ceil_div(p.n, 4), GemmSplitsParams::kLocal)));
}

}  // namespace aule::ops
