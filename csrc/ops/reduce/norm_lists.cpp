#include "ops/reduce/norm_lists.h"

#include <ATen/ops/_foreach_norm_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/ScalarType.h>

#include <cmath>
#include <map>

#include "kernels_reduce.gen.h"
#include "ops/reduce/plan.h"
#include "ops/tensor/table.h"

namespace aule::ops {
namespace {

namespace slow = at::compositeexplicitautograd;  // PyTorch's loops over single tensors
using at::Tensor;
using at::TensorList;

// ORD of norm_many.comp, or nothing for an order that it does not have.
std::optional<int> order_of(const at::Scalar& ord) {
  if (ord.isComplex() || ord.isBoolean()) return {};
  const double p = ord.toDouble();
  if (p == 1 || p == 2) return static_cast<int>(p);
  if (std::isinf(p) && p > 0) return 0;
  return {};
}

bool has_kernel(at::ScalarType t) { return has_dtype(t) && at::isFloatingType(t); }

DType arithmetic_of(at::ScalarType type, at::ScalarType result) {
  return type == at::kDouble || result == at::kDouble ? DType::f64 : DType::f32;
}

auto kernel_of(const NormListPlan& plan, DType arithmetic) {
  return kernel::norm_many(arithmetic, plan.by_workgroup ? 1 : 0);
}

// Norms of dense tensors with elements, all of one dtype.
void norms(const std::vector<Tensor>& self, const std::vector<Tensor>& out, int order, const NormListPlan& plan,
           DType arithmetic) {
  const char* op = "_foreach_norm";
  const auto kernel = kernel_of(plan, arithmetic);
  NormManySpec spec{.in_dtype = dtype_of(self[0], op), .out_dtype = dtype_of(out[0], op), .ord = order};
  spec.local = plan.local;
  NormManyParams base{};
  base.chunk = plan.chunk;
  auto& stream = current(self[0]);
  const auto grid_of = [&](uint64_t works) {
    return linear_grid(plan.by_workgroup ? works : ceil_div(works, plan.local));
  };
  TensorArgs results;  // of the table
  for_each_table(
      self.size(), plan.chunk, [&](size_t i) { return self[i].numel(); }, base,
      [&](NormManyParams& p, TensorArgs& args, uint32_t at, size_t i) {
        if (at == 0) results = {};
        p.x[at] = args.read(self[i]);
        p.out_[at] = results.write(out[i]);
      },
      [&](NormManyParams& p, TensorArgs& args, const Grid& chunks) {
        p.chunks = static_cast<uint32_t>(chunks.groups());
        const bool whole = p.chunks == p.tensors;  // each tensor is one chunk
        Tensor partials;
        if (whole) {
          for (size_t i = 0; i < results.size(); ++i)
            args.write(results.data()[i].begin, results.data()[i].end - results.data()[i].begin);
        } else {
          const at::ScalarType type = arithmetic == DType::f64 ? at::kDouble : at::kFloat;
          partials = at::empty({p.chunks}, self[0].options().dtype(type));
          p.partials = args.write(partials);
        }
        spec.pass = whole ? 0 : 1;
        launch(stream, kernel, spec, p, args, grid_of(p.chunks));
        if (whole) return;
        results.read(partials);
        spec.pass = 2;
        launch(stream, kernel, spec, p, results, grid_of(p.tensors));
      });
}

}  // namespace

std::vector<Tensor> foreach_norm(TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype) {
  const std::optional<int> order = order_of(ord);
  if (self.size() < 2 || !order) return slow::_foreach_norm(self, ord, dtype);
  const c10::Device device = self[0].device();
  std::vector<Tensor> out(self.size());
  std::map<at::ScalarType, std::vector<size_t>> by_dtype;
  const NormListPlan plan = norm_list_plan(profile_of(device.index()));
  for (size_t i = 0; i < self.size(); ++i) {
    const Tensor& t = self[i];
    const at::ScalarType type = t.scalar_type(), result = dtype.value_or(type);
    const bool fits = t.device() == device && t.layout() == at::kStrided && t.numel() > 0 &&
                      t.numel() <= plan.most_elems && walks_dense(t) && !t.is_neg() && has_kernel(type) &&
                      has_kernel(result) && c10::promoteTypes(type, result) == result;
    if (fits && supports(device.index(), kernel_of(plan, arithmetic_of(type, result)).id))
      by_dtype[type].push_back(i);
    else
      out[i] = at::linalg_vector_norm(t, ord, {}, /*keepdim=*/false, dtype);
  }
  for (const auto& [type, indices] : by_dtype) {
    const at::ScalarType result = dtype.value_or(type);
    std::vector<Tensor> inputs, outputs;
    for (size_t i : indices) {
      inputs.push_back(self[i]);
      outputs.push_back(out[i] = at::empty({}, self[i].options().dtype(result)));
    }
    norms(inputs, outputs, *order, plan, arithmetic_of(type, result));
  }
  return out;
}

}  // namespace aule::ops
