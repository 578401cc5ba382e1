#include "ops/reduce/column_sum.h"

#include <ATen/ops/empty.h>

#include "kernels_reduce.gen.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

void column_sum(const char* name, const ColumnSumPlan& plan, const at::Tensor& x, int64_t rows, int64_t n, double scale,
                const at::Tensor& out) {
  const at::Tensor part = at::empty({plan.splits, n}, x.options().dtype(at::kFloat));
  {
    TensorArgs args;
    ColumnSumParams p{};
    p.x = args.read(x);
    p.part = args.write(part);
    p.row_stride = plan.row_stride;
    p.n = static_cast<uint32_t>(n);
    p.rows = static_cast<uint32_t>(rows);
    p.blocks = plan.blocks;
    p.splits = plan.splits;
    p.chunk = static_cast<uint32_t>(plan.chunk);
    p.scale = static_cast<float>(scale);
    launch(current(x), kernel::column_sum(), {.dtype = dtype_of(x, name)}, p, args, plan.grid);
  }
  TensorArgs args;
  NormParamsSumParams p{};
  p.part_w = args.read(part);
  p.dw = args.write(out);
  p.n = static_cast<uint32_t>(n);
  p.groups = plan.splits;
  p.blocks = plan.sum_blocks;
  launch(current(x), kernel::norm_params_sum(DType::f32),
         {.w_dtype = dtype_of(out, name), .b_dtype = dtype_of(out, name)}, p, args, linear_grid(p.blocks));
}

}  // namespace aule::ops
