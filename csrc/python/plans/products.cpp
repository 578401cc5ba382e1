// Plans of matrix products for devices that are described in numbers, none of which is asked: for tests and for people.
#include "ops/conv/plan.h"
#include "ops/matmul/plan_text.h"
#include "ops/matmul/route.h"
#include "ops/quantized/format.h"
#include "ops/quantized/plan.h"
#include "python/bindings.h"

#include <array>
#include <map>
#include <span>
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
  const auto precision = d["precision"].cast<std::string>();
  g.precision = precision == "high"     ? ops::Float32Precision::high
                : precision == "medium" ? ops::Float32Precision::medium
                                        : ops::Float32Precision::highest;
  return g;
}

// dtype -> {rows, columns, words...} of what the probe of a device's matrices answers (ops/coopmat/probe.h).
using Probes = std::map<std::string, std::vector<uint32_t>>;

ops::MatrixUnits units_of(const DeviceProfile& profile, const Probes& probes, DType multiplied) {
  ops::MatrixUnits units;
  const auto probe = probes.find(multiplied == DType::f16 ? "f16" : multiplied == DType::bf16 ? "bf16" : "none");
  if (probe == probes.end() || !profile.cooperative_matrix) return units;
  const std::vector<uint32_t>& w = probe->second;
  units.layout = ops::read_matrix_probe(std::span(w).subspan(2), static_cast<int>(w[0]), static_cast<int>(w[1]),
                                        profile.min_subgroup_size, profile.max_subgroup_size);
  return units;
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
  m.def("implicit_gemm_plan", [](const DeviceProfile& profile, const Probes& probes, const std::string& dtype,
                                 bool makes_weights, const std::array<uint32_t, 5>& sizes) {
    const DType type = dtype_named(dtype);
    const ops::MatrixUnits units = units_of(profile, probes, type);
    const auto plan = ops::implicit_gemm_plan(profile, units,
                                              {type, makes_weights, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]});
    return plan ? ops::text_of(*plan) : std::string("nothing");
  });
}

}  // namespace aule::python
