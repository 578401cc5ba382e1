// Plans of matrix products for devices that are described in numbers, none of which is asked: for tests and for people.
#include "ops/matmul/plan_text.h"
#include "ops/matmul/route.h"
#include "ops/quantized/format.h"
#include "ops/quantized/plan.h"
#include "python/bindings.h"
#include "python/plans/probes.h"

#include <array>
#include <string>
#include <vector>

namespace aule::python {
namespace {

template <class T>
void read(const py::dict& from, const char* name, T& to) {
  if (from.contains(name)) to = from[name].cast<T>();
}

// {address, batch, row, col}
ops::MatrixView view_from(const py::dict& d, const char* name) {
  const auto v = d[name].cast<std::array<int64_t, 4>>();
  return {static_cast<uint64_t>(v[0]), v[1], v[2], v[3]};
}

ops::GemmProblem problem_from(const py::dict& d) {
  ops::GemmProblem g;
  read(d, "batches", g.batches);
  read(d, "m", g.m);
  read(d, "n", g.n);
  read(d, "k", g.k);
  g.in = dtype_named(d["dtype"].cast<std::string>());
  g.result = dtype_named(d["result"].cast<std::string>());
  g.a = view_from(d, "a");
  g.b = view_from(d, "b");
  g.out = view_from(d, "out");
  g.has_c = d.contains("c");
  if (g.has_c) g.c = view_from(d, "c");
  read(d, "alpha_is_one", g.alpha_is_one);
  if (d.contains("gelu")) g.activation = ops::Activation::gelu;
  g.has_residual = d.contains("residual");
  read(d, "residual", g.residual);
  g.precision = precision_named(d["precision"].cast<std::string>());
  return g;
}

}  // namespace

void bind_products(py::module_& m) {
  m.def("gemm_plan", [](const DeviceProfile& profile, const Probes& probes, const py::dict& problem,
                        uint32_t int8_refuted, bool float16_pieces, bool parts) {
    const ops::GemmProblem g = problem_from(problem);
    Overrides overrides;
    if (float16_pieces) overrides.float32_pieces = PieceType::float16;
    if (parts) overrides.product_parts = ProductParts::by_cost;
    ops::MatrixUnits units = units_of(profile, probes, ops::multiplied_dtype(g, overrides));
    units.int8_refuted = int8_refuted;
    return ops::text_of(ops::gemm_plan(profile, units, g, overrides));
  });
  m.def("quantized_gemm_plan",
        [](const DeviceProfile& profile, const Probes& probes, const py::dict& problem, const std::string& format) {
          const ops::GemmProblem g = problem_from(problem);
          const auto plan = ops::quantized_gemm_plan(profile, units_of(profile, probes, g.in), g,
                                                     ops::quantized_format("quantized_gemm_plan", format));
          return plan ? ops::text_of(*plan) : std::string("dequantize");
        });
}

}  // namespace aule::python
