// Plans of pointwise operators, sorts, copies, indexing, losses, optimizers, windows, Fourier transforms
// and factorizations for devices that are described in numbers, none of which is asked: for tests and for people.
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device_profile.h"
#include "core/raw_dtype.h"
#include "ops/copy/plan.h"
#include "ops/decoding/accept_tokens.h"
#include "ops/eigen/plan.h"
#include "ops/fft/plan.h"
#include "ops/indexing/plan.h"
#include "ops/linalg/plan.h"
#include "ops/loss/plan.h"
#include "ops/optim/plan.h"
#include "ops/pointwise/plan.h"
#include "ops/pool/plan.h"
#include "ops/reduce/plan.h"
#include "ops/rnn/plan.h"
#include "ops/sort/plan.h"
#include "ops/tensor/plan_text.h"
#include "python/bindings.h"

namespace aule::python {
namespace {

using Numbers = std::vector<int64_t>;

// Each of `dims` is {size, stride of plain, stride of indexed, meets, stride of each index...}.
ops::IndexSpace space_from(const Numbers& bound, const Numbers& step, const std::vector<Numbers>& dims) {
  ops::IndexSpace space;
  space.bound.append(bound.begin(), bound.end());
  space.step.append(step.begin(), step.end());
  for (const Numbers& numbers : dims) {
    ops::IndexSpace::Dim dim{numbers.at(0), numbers.at(1), numbers.at(2), {}, numbers.at(3) != 0};
    for (size_t k = 0; k < bound.size(); ++k) dim.index_stride.at(k) = numbers.at(4 + k);
    space.dims.push_back(dim);
  }
  return space;
}

ops::Combine combine_named(const std::string& name) {
#define COMBINE_OP(code, op) \
  if (name == #op) return ops::Combine::op;
#include "indexing/combine_ops.def"
#undef COMBINE_OP
  throw py::value_error("there is no way to combine named " + name);
}

ops::PoolPass pool_pass(const std::string& name) {
  if (name == "avg") return ops::PoolPass::avg_forward;
  if (name == "avg_backward") return ops::PoolPass::avg_backward;
  return name == "max" ? ops::PoolPass::max_forward : ops::PoolPass::max_backward;
}

// Operands are (dtype, address), or nothing where a number takes the place. Each of `dims` is {size, stride of each
// operand...}; a number's strides are the result's.
using PointwiseOperands = std::vector<std::optional<std::pair<std::string, uint64_t>>>;

template <int N>
std::vector<std::string> pointwise_plans(const DeviceProfile& profile, DType arithmetic, bool is_special,
                                         const PointwiseOperands& operands, const std::vector<Numbers>& dims) {
  ops::PointwiseProblem<N> problem{arithmetic, is_special, {}};
  for (size_t k = 0; k < N; ++k) {
    ops::PointwiseOperand& o = problem.operands[k];
    o.by_value = !operands[k];
    if (o.by_value) continue;
    o.dtype = dtype_named(operands[k]->first);
    o.address = operands[k]->second;
  }
  ops::StridedShape<N> whole;
  for (const Numbers& dim : dims) {
    std::array<int64_t, N> strides;
    for (size_t k = 0; k < N; ++k) strides[k] = dim.at(1 + k);
    whole.push(dim.at(0), strides);
  }
  whole.normalize();
  std::string first;
  for (int k = 1; k < N; ++k) {
    ops::PointwiseOperand& o = problem.operands[k];
    const auto across = o.by_value ? std::nullopt : ops::across_plan(profile, whole, k, o.address, dtype_size(o.dtype));
    if (!across) continue;
    first += "transpose " + std::to_string(k) + " " + ops::grid_text(across->transpose.grid) + ", ";
    ops::lie_in_order(whole, k);
    o.address = 0;  // aligned
  }
  if (!first.empty()) whole.normalize();
  std::vector<std::string> plans;
  whole.for_each_piece([&](const ops::StridedShape<N>& piece, const std::array<int64_t, N>& offsets) {
    plans.push_back(first + ops::text_of(ops::pointwise_plan<N>(profile, problem, piece, offsets)));
  });
  return plans;
}

// {in, out, kernel, stride, pad, dilation} of depth, height and width.
using Axes = std::array<std::array<int32_t, 6>, 3>;

ops::FftKind fft_kind(const std::string& name) {
  static const std::map<std::string, ops::FftKind> kNames = {{"c2c", ops::FftKind::complex},
                                                             {"r2c", ops::FftKind::real_to_half},
                                                             {"r2c_full", ops::FftKind::real_to_full},
                                                             {"c2r", ops::FftKind::half_to_real}};
  return kNames.at(name);
}

template <class Plan>
std::string words(const std::optional<Plan>& plan) {
  return plan ? ops::text_of(*plan) : "none";
}

}  // namespace

void bind_families(py::module_& m) {
  // One text for each piece.
  m.def("pointwise_plans", [](const DeviceProfile& profile, const std::string& arithmetic, bool is_special,
                              const PointwiseOperands& operands, const std::vector<Numbers>& dims) {
    const DType c = dtype_named(arithmetic);
    switch (operands.size()) {
      case 2: return pointwise_plans<2>(profile, c, is_special, operands, dims);
      case 3: return pointwise_plans<3>(profile, c, is_special, operands, dims);
      case 4: return pointwise_plans<4>(profile, c, is_special, operands, dims);
      default: throw py::value_error("a pointwise operator has a result and one to three operands");
    }
  });
  m.def("sort_plan",
        [](const DeviceProfile& profile, const std::string& dtype, uint64_t rows, uint64_t n, uint64_t count) {
          return ops::text_of(ops::sort_plan(profile, {rows, n, count, dtype_named(dtype)}));
        });
  m.def("recurrent_plan", [](const DeviceProfile& profile, const std::string& dtype, uint32_t gates, uint32_t hidden,
                             uint32_t batch, uint32_t directions) {
    const auto cell = gates == 4 ? ops::Cell::lstm : gates == 3 ? ops::Cell::gru : ops::Cell::tanh;
    return words(ops::resident_plan(profile, {dtype_named(dtype), cell, hidden, directions, batch}));
  });
  m.def("fft_plan", [](const DeviceProfile& profile, const std::string& kind, const std::string& real, uint64_t n,
                       bool in_is_dense, bool out_is_dense, uint64_t neighbours) {
    return ops::text_of(ops::fft_plan(profile, {.real = dtype_named(real),
                                                .kind = fft_kind(kind),
                                                .n = n,
                                                .in_is_dense = in_is_dense,
                                                .out_is_dense = out_is_dense,
                                                .neighbours = neighbours}));
  });
  m.def("copies_by_kernel", [](const DeviceProfile& profile, uint64_t addresses, uint64_t bytes) {
    return ops::copies_by_kernel(profile, addresses, bytes);
  });
  // Each of `dims` is {size, stride of the target, stride of the source}.
  m.def("transpose_plan",
        [](const DeviceProfile& profile, size_t bytes, const std::vector<std::array<int64_t, 3>>& dims,
           uint64_t addresses) -> std::string {
          ops::StridedShape<2> shape;
          for (const auto& d : dims) shape.push(d[0], {d[1], d[2]});
          shape.normalize();
          const auto plan = ops::transpose_plan(profile, raw_dtype(bytes), shape, addresses);
          if (!plan) return "none";
          return std::string("transpose ") + (plan->pairs ? "pairs " : "") + ops::grid_text(plan->grid);
        });
  m.def("copy_units",
        [](size_t bytes, const std::vector<std::array<int64_t, 3>>& dims, uint64_t addresses) -> std::string {
          ops::StridedShape<2> shape;
          for (const auto& d : dims) shape.push(d[0], {d[1], d[2]});
          shape.normalize();
          const ops::WideUnits units = ops::wide_units(raw_dtype(bytes), shape, addresses);
          return std::to_string(dtype_size(units.raw)) + " bytes, " + std::to_string(units.each) + " of an invocation";
        });
  m.def("conversion", [](const DeviceProfile& profile, const std::string& from, const std::string& to) {
    return ops::name_of(ops::conversion_of(profile, dtype_named(to), dtype_named(from)));
  });
  m.def("foreach_most_elems", [](const DeviceProfile& profile) { return ops::foreach_most_elems(profile); });
  m.def("adam_uses_vec16b", [](const DeviceProfile& profile) { return ops::adam_uses_vec16b(profile); });
  m.def("likeliest_plan", [](const DeviceProfile& profile, uint64_t rows, uint64_t n) {
    return ops::text_of(ops::likeliest_plan(profile, rows, n));
  });
  m.def("norm_list_plan", [](const DeviceProfile& profile) { return ops::text_of(ops::norm_list_plan(profile)); });
  m.def("qr_panel_plan", [](const DeviceProfile& profile, const std::string& dtype, uint64_t rows, uint64_t columns) {
    return ops::text_of(ops::qr_panel_plan(profile, dtype_named(dtype), rows, columns));
  });
  m.def("jacobi_plan", [](const DeviceProfile& profile, const std::string& dtype, uint64_t rows, uint64_t columns) {
    return ops::text_of(ops::jacobi_plan(profile, dtype_named(dtype), rows, columns));
  });
  m.def("lu_panel_plan", [](const DeviceProfile& profile, const std::string& dtype, int64_t rows, int64_t columns) {
    return ops::text_of(ops::lu_panel_plan(profile, dtype_named(dtype), rows, columns));
  });
  m.def("eig_plan", [](const DeviceProfile& profile, const std::string& dtype, uint64_t n) {
    return ops::text_of(ops::eig_plan(profile, dtype_named(dtype), n));
  });
  m.def("ldl_plan", [](const DeviceProfile& profile, uint64_t n) { return ops::text_of(ops::ldl_plan(profile, n)); });
  m.def("lu_steps_plan", [](const DeviceProfile& profile, const std::string& dtype, int64_t rows, int64_t columns,
                            int64_t batches) {
    const auto plan = ops::lu_steps_plan(profile, dtype_named(dtype), rows, columns, batches, {});
    return plan ? ops::text_of(*plan) : std::string("by halves");
  });
  m.def("cholesky_plan", [](const DeviceProfile& profile, const std::string& dtype, int64_t n) {
    return ops::text_of(ops::cholesky_plan(profile, dtype_named(dtype), n, {}));
  });
  m.def("tridiagonal_plan", [](const DeviceProfile& profile, const std::string& dtype, int64_t n, int64_t batches) {
    const auto plan = ops::tridiagonal_plan(profile, dtype_named(dtype), n, batches, {});
    return plan ? ops::text_of(*plan) : std::string("rotations");
  });
  m.def("triangle_plan",
        [](const DeviceProfile& profile, const std::string& dtype, int64_t n, int64_t columns, int64_t batches) {
          return ops::text_of(ops::triangle_plan(profile, dtype_named(dtype), n, columns, batches));
        });
  m.def("search_local", [](const DeviceProfile& profile) { return ops::search_local(profile); });
  m.def("index_move_plan", [](const DeviceProfile& profile, const std::string& dtype, const Numbers& bound,
                              const Numbers& step, const std::vector<Numbers>& dims, uint64_t addresses,
                              bool is_ordered) {
    return ops::text_of(ops::index_move_plan(
        profile, {space_from(bound, step, dims), raw_dtype(dtype_size(dtype_named(dtype))), addresses, is_ordered}));
  });
  m.def("index_combine_plan",
        [](const DeviceProfile& profile, const std::string& dtype, const Numbers& bound, const Numbers& step,
           const std::vector<Numbers>& dims, const std::string& op, bool is_deterministic) {
          return ops::text_of(ops::index_combine_plan(
              profile, {space_from(bound, step, dims), dtype_named(dtype), combine_named(op), is_deterministic}));
        });
  m.def("combines_in_float32", [](const std::string& dtype, const std::string& op, int64_t indexed, int64_t plain) {
    return ops::combines_in_float32(dtype_named(dtype), combine_named(op), indexed, plain);
  });
  m.def("cross_entropy_plan",
        [](const DeviceProfile& profile, const std::string& dtype, int64_t rows, int64_t n, bool per_row) {
          return words(ops::cross_entropy_plan(profile, {dtype_named(dtype), rows, n, per_row}));
        });
  m.def("nll_loss_chunks",
        [](const DeviceProfile& profile, int64_t positions) { return ops::nll_loss_chunks(profile, positions); });
  // A kernel of 0: adaptive windows.
  m.def("pool_plan", [](const DeviceProfile& profile, const std::string& pass, const Axes& axes) {
    ops::PoolWindow w;
    w.adaptive = axes[2][2] == 0;
    for (size_t d = 0; d < 3; ++d) {
      w.in[d] = axes[d][0];
      w.out[d] = axes[d][1];
      if (w.adaptive) continue;
      w.kernel[d] = axes[d][2];
      w.stride[d] = axes[d][3];
      w.pad[d] = axes[d][4];
      w.dilation[d] = axes[d][5];
    }
    return words(ops::pool_plan(profile, w, pool_pass(pass)));
  });
}

}  // namespace aule::python
