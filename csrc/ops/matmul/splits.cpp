#include "ops/matmul/splits.h"

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
      p, args, linear_grid(ceil_div(uint64_t{g.batches} * g.m * ceil_div(g.n, 4), 256)));
}

}  // namespace aule::ops
