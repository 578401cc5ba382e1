// Cooperative matrices as the probe found them, and what attention and its tuning take from a device.
#include "core/environment.h"
#include "ops/attention/tuning_table.h"
#include "ops/coopmat/layout.h"
#include "python/bindings.h"
#include "runtime/device_info.h"

namespace aule::python {
namespace {

py::dict layout_dict(const ops::MatrixLayout& l) {
  py::dict d;
#define FIELD(name) d[#name] = l.name
  FIELD(usable);
  FIELD(known);
  FIELD(hand_over);
  FIELD(cuts);
  FIELD(m);
  FIELD(n);
  FIELD(subgroup);
  FIELD(elements);
  FIELD(lane_div);
  FIELD(lane_row);
  FIELD(lane_col);
  FIELD(rows);
  FIELD(cols);
  FIELD(a_elem);
  FIELD(b_is_a_transposed);
  FIELD(slot_count);
  FIELD(slots);
  FIELD(slot_rows);
#undef FIELD
  return d;
}

}  // namespace

void bind_attention(py::module_& m) {
  const auto matrix_dtype = [](bool bfloat16) { return bfloat16 ? DType::bf16 : DType::f16; };
  m.def("matrix_layout", [matrix_dtype](int device, bool bfloat16) {
    return layout_dict(ops::matrix_layout(index_of(device), matrix_dtype(bfloat16)));
  });
  m.def("state_matrix_probe", [matrix_dtype](int device, bool bfloat16, const std::vector<uint32_t>& words) {
    ops::state_matrix_probe(index_of(device), matrix_dtype(bfloat16), words);
  });
  m.def("read_matrix_probe",
        [](const std::vector<uint32_t>& words, int rows, int columns, uint32_t least, uint32_t most) {
          return layout_dict(ops::read_matrix_probe(words, rows, columns, least, most));
        });
  m.def("attention_shape", [](int device, const std::string& pass, bool banded, int dim) {
    const auto which = pass == "dq"     ? ops::AttentionPass::dq
                       : pass == "dkdv" ? ops::AttentionPass::dkdv
                                        : ops::AttentionPass::forward;
    runtime::create_device(index_of(device));  // which reads the measured ones
    const auto s = ops::matrix_shape(runtime::device_profile(index_of(device)), which, banded, /*plain=*/true, dim);
    return py::make_tuple(s.warps, s.rows, s.tile, s.step, s.stages);
  });
  py::class_<Overrides>(m, "Overrides")
      .def("set", [](Overrides& self, const std::string& member, const std::string& text) {
        set_override(self, member, text);
      });
  m.def("overrides", [] { return overrides(); });
  m.def("set_overrides", &set_overrides);
  m.def("tuning_file", [](int device) { return runtime::tuning_file(index_of(device)); });
}

}  // namespace aule::python
