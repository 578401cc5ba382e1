// Plans of reductions, scans, softmax and norms for devices that are described in numbers, none of which is asked: for
// tests and for people.
#include "ops/norm/plan.h"
#include "ops/reduce/plan.h"
#include "ops/reduce/scan_plan.h"
#include "python/bindings.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace aule::python {
namespace {

ops::ReduceOp reduce_op_named(const std::string& name) {
#define REDUCE_OP(code, op) \
  if (name == #op) return ops::ReduceOp::op;
#include "reduce/reduce_ops.def"
#undef REDUCE_OP
  throw py::value_error("there is no reduction " + name);
}

ops::ReduceKind reduce_kind_named(const std::string& name) {
  using ops::ReduceKind;
  static const std::map<std::string, ReduceKind> kNames = {{"value", ReduceKind::value},
                                                           {"arg", ReduceKind::arg},
                                                           {"moments", ReduceKind::moments},
                                                           {"lse", ReduceKind::lse},
                                                           {"minmax", ReduceKind::minmax}};
  return kNames.at(name);
}

std::string plan_reduction(const DeviceProfile& profile, const py::dict& values) {
  const auto word = [&](const char* name) { return values[name].cast<std::string>(); };
  const auto numbers = [&](const char* name) { return values[name].cast<std::vector<int64_t>>(); };
  const std::vector<int64_t> sizes = numbers("sizes"), strides = numbers("strides"), out = numbers("out_strides");
  ops::ReductionProblem problem{
      .reduction = {.op = reduce_op_named(word("op")), .kind = reduce_kind_named(word("kind"))},
      .sizes = sizes,
      .strides = strides,
      .out_strides = out,
      .in = dtype_named(word("in")),
      .result = dtype_named(word("result")),
      .in_address = values["address"].cast<uint64_t>()};
  for (const int64_t dim : numbers("dims")) problem.reduced.set(static_cast<size_t>(dim));
  const auto plan = ops::reduction_plan(profile, problem);
  return plan ? ops::text_of(*plan) : "none";
}

// Operands are (dtype, address).
using Operand = std::pair<std::string, uint64_t>;
ops::RowOperand row_operand(const Operand& t) { return {dtype_named(t.first), t.second}; }
ops::RowOperand row_operand(const py::dict& values, const char* name) {
  return row_operand(values[name].cast<Operand>());
}
std::optional<ops::RowOperand> optional_operand(const py::dict& values, const char* name) {
  return values.contains(name) ? std::optional(row_operand(values, name)) : std::nullopt;
}

std::string plan_softmax(const DeviceProfile& profile, bool is_backward, const std::array<uint64_t, 3>& sizes,
                         const std::vector<Operand>& operands) {
  ops::SoftmaxProblem problem{.is_backward = is_backward, .rows = sizes[0], .n = sizes[1], .inner = sizes[2]};
  for (const Operand& t : operands) problem.operands.push_back(row_operand(t));
  return ops::text_of(ops::softmax_plan(profile, problem));
}

// rows, n, hw, groups, channels
ops::NormRows norm_rows(const std::array<int64_t, 5>& sizes, bool is_rms) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], is_rms};
}

std::string plan_norm(const DeviceProfile& profile, bool is_backward, const std::array<int64_t, 5>& sizes, bool is_rms,
                      const py::dict& t) {
  const ops::NormRows rows = norm_rows(sizes, is_rms);
  if (is_backward) {
    return ops::text_of(ops::norm_backward_plan(profile, {.rows = rows,
                                                          .grad = row_operand(t, "grad"),
                                                          .x = row_operand(t, "x"),
                                                          .w = optional_operand(t, "w"),
                                                          .dx = optional_operand(t, "dx")}));
  }
  return ops::text_of(ops::norm_forward_plan(profile, {.rows = rows,
                                                       .x = row_operand(t, "x"),
                                                       .y = row_operand(t, "y"),
                                                       .w = optional_operand(t, "w"),
                                                       .b = optional_operand(t, "b")}));
}

std::string plan_param_sums(const DeviceProfile& profile, const std::array<int64_t, 7>& s, const Operand& grad,
                            const Operand& x) {
  const ops::ParamSums sums{s[0], s[1], s[2], s[3], s[4], s[5], s[6]};
  return ops::text_of(ops::param_sums_plan(profile, {sums, row_operand(grad), row_operand(x)}));
}

std::string plan_batch_norm(uint64_t numel, int64_t channels, int64_t hw, const py::dict& t,
                            const std::vector<Operand>& of_channels) {
  ops::BatchNormProblem problem{.numel = numel,
                                .channels = channels,
                                .hw = hw,
                                .x = row_operand(t, "x"),
                                .out = row_operand(t, "out"),
                                .grad = optional_operand(t, "grad")};
  for (const Operand& each : of_channels) problem.of_channels.push_back(row_operand(each));
  return ops::text_of(ops::batch_norm_plan(problem));
}

}  // namespace

void bind_rows(py::module_& m) {
  m.def("reduction_plan", &plan_reduction);
  m.def("scan_plan", [](const DeviceProfile& profile, uint64_t rows, uint64_t n, uint64_t inner, uint64_t turns) {
    const auto plan = ops::scan_plan(profile, {rows, n, inner, turns});
    return plan ? ops::text_of(*plan) : std::string("none");
  });
  m.def("softmax_plan", &plan_softmax);
  m.def("norm_plan", &plan_norm);
  m.def("param_sums_plan", &plan_param_sums);
  m.def("batch_norm_plan", &plan_batch_norm);
}

}  // namespace aule::python
