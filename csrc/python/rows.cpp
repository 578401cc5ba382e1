// Plans of reductions and scans for devices that are described in numbers, none of which is asked: for tests and for
// people.
#include "ops/reduce/plan.h"
#include "ops/reduce/scan_plan.h"
#include "python/bindings.h"

#include <string>
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
  return plan ? ops::describe(*plan) : "none";
}

}  // namespace

void bind_rows(py::module_& m) {
  m.def("reduction_plan", &plan_reduction);
  m.def("scan_plan", [](const DeviceProfile& profile, uint64_t rows, uint64_t n, uint64_t inner) {
    const auto plan = ops::scan_plan(profile, {rows, n, inner});
    return plan ? ops::describe(*plan) : std::string("none");
  });
}

}  // namespace aule::python
