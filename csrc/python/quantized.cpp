// The table of formats of quantized weights, for torch_aule.quantized; plans of products with them, for tests.
#include "ops/decoding/norm_linear.h"
#include "ops/quantized/format.h"
#include "ops/quantized/plan.h"
#include "python/bindings.h"

#include <map>
#include <string>

namespace aule::python {

void bind_quantized(py::module_& m) {
  m.def("quantized_formats", [] {
    std::map<std::string, std::map<std::string, uint32_t>> rows;
    for (const ops::QuantizedFormat& f : ops::quantized_formats())
      rows[f.name] = {
          {"values", f.values}, {"data_bytes", f.data_bytes}, {"scale_bytes", f.scale_bytes}, {"scale_at", f.scale_at}};
    return rows;
  });
  m.def("quantized_gemv_plan", [](const DeviceProfile& profile, uint64_t m, uint64_t n, uint64_t spans, uint64_t pairs,
                                  bool gated, bool integers) {
    return ops::text_of(ops::quantized_gemv_plan(profile, {m, n, spans, pairs, gated, integers}));
  });
  m.def("norm_linear_plan",
        [](const DeviceProfile& profile, uint64_t m, uint64_t n, uint64_t k, bool gated, const std::string& dtype) {
          const DType type = dtype == "float32" ? DType::f32 : dtype == "float16" ? DType::f16 : DType::bf16;
          const auto plan = ops::norm_linear_plan(profile, {m, n, k, gated, true, type});
          return plan ? ops::text_of(*plan) : std::string("apart");
        });
}

}  // namespace aule::python
