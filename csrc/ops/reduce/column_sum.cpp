#include "ops/reduce/column_sum.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels_reduce.gen.h"
#include "ops/tensor/loop_limit.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

bool column_sum(const char* name, const at::Tensor& x, int64_t rows, int64_t n, int64_t row_stride, double scale,
                const at::Tensor& out) {
  const auto serves = [](c10::ScalarType t) { return t == at::kFloat || t == at::kHalf || t == at::kBFloat16; };
  const Caps& caps = caps_of(x);
  if (caps.is_software() || caps.max_workgroup_invocations < 256) return false;
  if (!serves(x.scalar_type()) || !serves(out.scalar_type())) return false;
  const int64_t elems = 16 / static_cast<int64_t>(x.element_size());
  constexpr int64_t kFewRows = 64, kRowsOfSplit = 32, kGroupsEach = 4;
  if (rows < kFewRows || rows > 0x7fffffff || n > 0x7fffffff || n % elems != 0 || row_stride % elems != 0 ||
      address_of(x) % 16 != 0)
    return false;
  const int64_t blocks = (n + 32 * elems - 1) / (32 * elems);
  const int64_t wanted = std::max<int64_t>(1, kGroupsEach * profile_of(x).multiprocessors / blocks);
  const int64_t chunk = std::max<int64_t>(kRowsOfSplit, (rows + wanted - 1) / wanted),
                splits = (rows + chunk - 1) / chunk;
  if (!may_walk(caps, chunk / kRowsOfSplit + splits / 8)) return false;

  const at::Tensor part = at::empty({splits, n}, x.options().dtype(at::kFloat));
  {
    TensorArgs args;
    ColumnSumParams p{};
    p.x = args.read(x);
    p.part = args.write(part);
    p.row_stride = row_stride;
    p.n = static_cast<uint32_t>(n);
    p.rows = static_cast<uint32_t>(rows);
    p.blocks = static_cast<uint32_t>(blocks);
    p.splits = static_cast<uint32_t>(splits);
    p.chunk = static_cast<uint32_t>(chunk);
    p.scale = static_cast<float>(scale);
    launch(current(x), kernel::column_sum(), {.dtype = dtype_of(x, name)}, p, args, linear_grid(blocks * splits));
  }
  TensorArgs args;
  NormParamsSumParams p{};
  p.part_w = args.read(part);
  p.dw = args.write(out);
  p.n = static_cast<uint32_t>(n);
  p.groups = static_cast<uint32_t>(splits);
  p.blocks = ceil_div(n, 32);
  launch(current(x), kernel::norm_params_sum(), {.w_dtype = dtype_of(out, name), .b_dtype = dtype_of(out, name)}, p,
         args, linear_grid(p.blocks));
  return true;
}

}  // namespace aule::ops
