// Cooperative matrices as the probe found them, and what attention and its tuning take from a device.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/environment.h"
#include "ops/attention/blocks.h"
#include "ops/attention/ds_workspace.h"
#include "ops/attention/family/tuning_table.h"
#include "ops/attention/sequences_plan.h"
#include "ops/coopmat/layout.h"
#include "python/bindings.h"
#include "runtime/device_info.h"

namespace aule::python {
namespace {

// Members of a layout.
// clang-format off: a table
#define AULE_LAYOUT(X)                                                                  \
  X(usable) X(known) X(acc_is_a_operand) X(truncates) X(m) X(n) X(subgroup) X(elements) \
  X(lane_div) X(lane_row) X(lane_col) X(rows) X(cols) X(a_elem)                         \
  X(b_is_a_transposed) X(lane_rows) X(elem_lane_rows) X(lane_row_offsets)
// clang-format on

py::dict layout_dict(const ops::MatrixLayout& l) {
  py::dict d;
#define FIELD(name) d[#name] = l.name;
  AULE_LAYOUT(FIELD)
#undef FIELD
  return d;
}

// A profile, layout, problem and overrides from dicts of numbers under the members' names, for tables of plans.
uint64_t number(const py::dict& values, const char* name) {
  return values.contains(name) ? py::cast<uint64_t>(py::int_(values[name])) : 0;
}

DeviceProfile profile_from(const py::dict& values) {
  Caps caps;
  const auto kind = py::cast<std::string>(values["kind"]);
  caps.kind = kind == "cpu" ? Caps::Kind::cpu : kind == "discrete" ? Caps::Kind::discrete : Caps::Kind::other;
  caps.name = py::cast<std::string>(values["name"]);
#define FIELD(member) caps.member = static_cast<decltype(caps.member)>(number(values, #member))
  FIELD(vendor_id);
  FIELD(device_id);
  FIELD(subgroup_size);
  FIELD(min_subgroup_size);
  FIELD(max_subgroup_size);
  FIELD(shared_bytes);
  FIELD(max_push_constant_bytes);
  FIELD(max_workgroup_invocations);
  FIELD(max_loop_iterations);
  FIELD(device_heap_bytes);
#undef FIELD
  if (values.contains("coopmat_shapes")) {
    for (const auto& s : py::cast<std::vector<std::array<uint32_t, 5>>>(values["coopmat_shapes"])) {
      const auto operand = static_cast<uint8_t>(s[3]), sum = static_cast<uint8_t>(s[4]);
      caps.coopmat_shapes.push_back({s[0], s[1], s[2], operand, operand, sum, sum});
    }
  }
  const auto groups = py::cast<std::array<uint32_t, 3>>(values["max_group_count"]);
  std::copy(groups.begin(), groups.end(), caps.max_group_count);
  const auto has = py::cast<std::vector<std::string>>(values["capabilities"]);
#define AULE_CAPABILITY(name, lack) caps.name = std::find(has.begin(), has.end(), #name) != has.end();
#include "core/capabilities.def"
  return make_profile(std::move(caps), static_cast<uint32_t>(number(values, "multiprocessors")));
}

ops::MatrixLayout layout_from(const py::dict& values) {
  ops::MatrixLayout layout;
#define FIELD(member) \
  if (values.contains(#member)) layout.member = static_cast<decltype(layout.member)>(number(values, #member));
  AULE_LAYOUT(FIELD)
#undef FIELD
  return layout;
}

ops::AttentionPass pass_named(const std::string& name) {
  if (name == "dq") return ops::AttentionPass::dq;
  return name == "dkdv" ? ops::AttentionPass::dkdv : ops::AttentionPass::forward;
}

ops::AttentionProblem attention_problem(const py::dict& values, const py::dict& layout) {
  ops::AttentionProblem problem;
#define FIELD(member) problem.member = static_cast<decltype(problem.member)>(number(values, #member))
  FIELD(batch);
  FIELD(heads);
  FIELD(kv_heads);
  FIELD(q_len);
  FIELD(k_len);
  FIELD(head_dim);
  FIELD(v_dim);
  FIELD(masked);
  FIELD(ragged);
  FIELD(unmodified_scores);
  FIELD(fits_i32);
  FIELD(vec16b);
  FIELD(int8);
  FIELD(num_splits);
#undef FIELD
  using Kind = ops::AttentionMask::Kind;
  if (const uint64_t block_q = number(values, "block_q"); block_q != 0)
    problem.mask = {Kind::blocks, static_cast<int>(block_q), static_cast<int>(number(values, "block_k"))};
  if (number(values, "float_bias") != 0) problem.mask = {Kind::bias};
  problem.dtype = dtype_named(py::cast<std::string>(values["dtype"]));
  problem.layout = layout_from(layout);
  return problem;
}

std::string plan_attention(const DeviceProfile& profile, const std::string& pass, const py::dict& values,
                           const py::dict& layout, const Overrides& overrides) {
  const auto plan = ops::plan_attention(profile, attention_problem(values, layout), pass_named(pass), overrides);
  return plan ? ops::text_of(*plan) : "none";
}

// `values` may have is_lower_triangle and failed_bytes.
std::string plan_ds_workspace(const DeviceProfile& profile, const py::dict& values, const py::dict& layout,
                              const Overrides& overrides) {
  const ops::AttentionProblem problem = attention_problem(values, layout);
  const auto dq = ops::plan_attention(profile, problem, ops::AttentionPass::dq, overrides),
             dkdv = ops::plan_attention(profile, problem, ops::AttentionPass::dkdv, overrides);
  const ops::FlashCoopMatPlan *dq_coopmat = dq ? ops::coopmat_of(*dq) : nullptr,
                              *dkdv_coopmat = dkdv ? ops::coopmat_of(*dkdv) : nullptr;
  if (dq_coopmat == nullptr || dkdv_coopmat == nullptr) return "none";
  const auto plan =
      ops::plan_ds_workspace(profile,
                             {problem, *dq_coopmat, *dkdv_coopmat, number(values, "is_lower_triangle") != 0,
                              static_cast<int64_t>(number(values, "failed_bytes"))},
                             overrides);
  return plan ? ops::text_of(*plan) : "none";
}

// Rows of queries and keys of a block: on devices that end long loops. `values` may have reach and has_dropout.
std::string plan_attention_blocks(const DeviceProfile& profile, const py::dict& values, const py::dict& layout,
                                  const Overrides& overrides) {
  const ops::AttentionProblem problem = attention_problem(values, layout);
  const auto plan = [&](ops::AttentionPass pass) { return ops::plan_attention(profile, problem, pass, overrides); };
  const auto forward = plan(ops::AttentionPass::forward), dq = plan(ops::AttentionPass::dq),
             dkdv = plan(ops::AttentionPass::dkdv);
  if (!forward || !dq || !dkdv) return "none";
  const int64_t reach = values.contains("reach") ? values["reach"].cast<int64_t>() : ops::kUnbounded;
  const auto blocks =
      ops::plan_blocks(profile, {problem, {&*forward, &*dq, &*dkdv}, reach, number(values, "has_dropout") != 0});
  if (!blocks) return "none";
  return "queries=" + std::to_string(blocks->queries) + " keys=" + std::to_string(blocks->keys) +
         " count=" + std::to_string(blocks->count);
}

// Tails are {rows, heads, head size}.
std::string plan_sequences(const DeviceProfile& profile, uint64_t batch,
                           const std::vector<std::array<uint64_t, 3>>& tails) {
  ops::SequencesProblem problem{.batch = batch, .tails = {}};
  for (size_t i = 0; i < tails.size(); ++i) problem.tails.at(i) = {tails[i][0], tails[i][1], tails[i][2]};
  const auto plan = ops::sequences_plan(profile, problem);
  return plan ? ops::text_of(*plan) : "none";
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
  m.def("attention_shape", [](int device, const std::string& pass, bool masked, int dim) {
    runtime::create_device(index_of(device));  // which reads the measured ones
    ops::AttentionProblem problem;
    problem.masked = masked;
    const auto e =
        ops::coopmat_entry(runtime::device_profile(index_of(device)), problem, pass_named(pass), dim, overrides());
    return py::make_tuple(e.subgroups, e.row_blocks, e.tile, e.blocks_in_flight, e.stages);
  });
  py::class_<DeviceProfile>(m, "DeviceProfile")
      .def_property_readonly("architecture", [](const DeviceProfile& p) { return architecture_name(p.architecture); })
      .def_readonly("multiprocessors", &DeviceProfile::multiprocessors)
      .def_readonly("multiprocessors_guessed", &DeviceProfile::multiprocessors_guessed);
  m.def("device_profile", &profile_from);
  m.def("attention_families", &ops::attention_families);
  m.def("plan_attention", &plan_attention);
  m.def("plan_ds_workspace", &plan_ds_workspace);
  m.def("plan_attention_blocks", &plan_attention_blocks);
  m.def("sequences_plan", &plan_sequences);
  py::class_<Overrides>(m, "Overrides")
      .def(py::init<>())
      .def("__eq__", [](const Overrides& self, const Overrides& other) { return self == other; })
      .def("set", [](Overrides& self, const std::string& member, const std::string& text) {
        set_override(self, member, text);
      });
  m.def("overrides", [] { return overrides(); });
  m.def("set_overrides", &set_overrides);
  m.def("tuning_file", [](int device) { return runtime::tuning_file(index_of(device)); });
}

}  // namespace aule::python
