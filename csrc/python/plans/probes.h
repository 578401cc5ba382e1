// A device that is described in numbers, as plans of products and of convolutions read it.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/coopmat/probe.h"
#include "ops/matmul/route.h"

namespace aule::python {

// dtype -> {rows, columns, words...} of what the probe of a device's matrices answers (ops/coopmat/probe.h).
using Probes = std::map<std::string, std::vector<uint32_t>>;

inline ops::MatrixUnits units_of(const DeviceProfile& profile, const Probes& probes, DType multiplied) {
  ops::MatrixUnits units;
  const auto probe = probes.find(multiplied == DType::f16 ? "f16" : multiplied == DType::bf16 ? "bf16" : "none");
  if (probe == probes.end() || !profile.cooperative_matrix) return units;
  const std::vector<uint32_t>& w = probe->second;
  units.layout = ops::read_matrix_probe(std::span(w).subspan(2), static_cast<int>(w[0]), static_cast<int>(w[1]),
                                        profile.min_subgroup_size, profile.max_subgroup_size);
  return units;
}

inline ops::Float32Precision precision_named(const std::string& name) {
  return name == "high"     ? ops::Float32Precision::high
         : name == "medium" ? ops::Float32Precision::medium
                            : ops::Float32Precision::highest;
}

}  // namespace aule::python
