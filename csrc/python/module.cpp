// torch_aule._C: devices, streams, memory and random state for the Python layer; no tensor maths.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

#include "ops/attention/tuning_table.h"
#include "ops/coopmat/layout.h"
#include "ops/fallback.h"
#include "runtime/allocator.h"
#include "runtime/device_caps.h"
#include "runtime/generator.h"
#include "runtime/info.h"
#include "runtime/streams.h"

namespace py = pybind11;
using namespace aule;

namespace {

c10::DeviceIndex index_of(int device) {
  return static_cast<c10::DeviceIndex>(device < 0 ? runtime::current_device() : device);
}

const char* kind_name(Caps::Kind kind) {
  switch (kind) {
    case Caps::Kind::discrete: return "discrete";
    case Caps::Kind::integrated: return "integrated";
    case Caps::Kind::virtual_gpu: return "virtual";
    case Caps::Kind::cpu: return "cpu";
    default: return "other";
  }
}

py::dict device_properties(int device) {
  const Caps& caps = runtime::device_caps(index_of(device));
  py::dict d;
#define FIELD(name) d[#name] = caps.name
  FIELD(name);
  FIELD(driver_name);
  FIELD(driver_info);
  FIELD(uuid);
  FIELD(vendor_id);
  FIELD(device_id);
  FIELD(driver_version);
  FIELD(api_version);
  FIELD(subgroup_size);
  FIELD(min_subgroup_size);
  FIELD(max_subgroup_size);
  FIELD(max_shared_bytes);
  FIELD(max_push_constant_bytes);
  FIELD(max_workgroup_invocations);
  FIELD(max_allocation_bytes);
  FIELD(max_buffer_bytes);
  FIELD(timestamp_period_ns);
  FIELD(max_loop_iterations);
  FIELD(driver_loop_limit);
  FIELD(unified_memory);
  FIELD(float16);
  FIELD(bfloat16);
  FIELD(float64);
  FIELD(int8);
  FIELD(int16);
  FIELD(int_dot_product);
  FIELD(float32_atomic_add);
  FIELD(shared_float32_atomic_add);
  FIELD(subgroup_basic);
  FIELD(subgroup_arithmetic);
  FIELD(subgroup_shuffle);
  FIELD(subgroup_ballot);
  FIELD(subgroup_size_control);
  FIELD(full_subgroups);
  FIELD(cooperative_matrix);
  FIELD(cooperative_matrix2);
  FIELD(sparse_binding);
  FIELD(memory_budget);
  FIELD(device_fault);
  FIELD(pipeline_executable_properties);
#undef FIELD
  d["created"] = runtime::device_created(index_of(device));
  d["kind"] = kind_name(caps.kind);
  d["total_memory"] = caps.device_heap_bytes;
  py::list shapes;
  for (const auto& s : caps.coopmat_shapes)
    shapes.append(py::make_tuple(s.m, s.n, s.k, s.a_type, s.b_type, s.c_type, s.result_type));
  d["coopmat_shapes"] = shapes;
  return d;
}

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

py::list memory_snapshot(int device) {
  py::list segments;
  for (const auto& s : runtime::memory_snapshot(index_of(device))) {
    py::list blocks;
    for (const auto& b : s.blocks) {
      py::dict block;
      block["address"] = b.address;
      block["size"] = b.bytes;
      block["requested_size"] = b.requested_bytes;
      block["state"] = b.state;
      block["frames"] = py::list();
      blocks.append(block);
    }
    py::dict segment;
    segment["device"] = s.device;
    segment["address"] = s.address;
    segment["total_size"] = s.total_bytes;
    segment["allocated_size"] = s.allocated_bytes;
    segment["active_size"] = s.active_bytes;
    segment["stream"] = s.stream;
    segment["segment_type"] = s.large ? "large" : "small";
    segment["segment_pool_id"] = py::make_tuple(s.pool.first, s.pool.second);
    segment["is_expandable"] = false;
    segment["frames"] = py::list();
    segment["blocks"] = blocks;
    segments.append(segment);
  }
  return segments;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "torch_aule's native layer; use torch.aule and torch_aule instead.";

  m.def("device_count", &runtime::device_count);
  m.def("unavailable_reason", &runtime::unavailable_reason);
  m.def("loop_guard_of_kernels", &runtime::loop_guard_of_kernels);
  m.def("is_initialized", [] {
    for (int i = 0; i < runtime::device_count(); ++i)
      if (runtime::device_created(i)) return true;
    return false;
  });
  m.def("init", [] {
    torch::utils::register_fork_handler_for_device_init(at::kPrivateUse1);
    runtime::check_not_forked();
  });
  m.def("current_device", [] { return static_cast<int>(runtime::current_device()); });
  // A program that turns to another device leaves work running here. The device guard around each operator does not
  // come this way: it would submit after every one.
  m.def("set_device", [](int device) {
    if (device != runtime::current_device()) runtime::submit_recorded(-1);
    runtime::set_device(static_cast<c10::DeviceIndex>(device));
  });
  m.def("exchange_device", [](int device) {
    if (device >= 0 && device != runtime::current_device()) runtime::submit_recorded(-1);
    return static_cast<int>(runtime::exchange_device(static_cast<c10::DeviceIndex>(device)));
  });
  m.def("device_properties", &device_properties);
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
    const auto s = ops::matrix_shape(index_of(device), which, banded, /*plain=*/true, dim);
    return py::make_tuple(s.warps, s.rows, s.tile, s.step, s.stages);
  });
  m.def("tuning_file", [](int device) { return runtime::tuning_file(index_of(device)); });
  m.def("synchronize", torch::wrap_pybind_function_no_gil([](int device) { runtime::synchronize(index_of(device)); }));
  m.def("is_in_bad_fork",
        [] { return runtime::in_bad_fork() || torch::utils::is_device_in_bad_fork(at::kPrivateUse1); });
  m.def("current_stream_id", [](int device) { return runtime::current_c10_stream(index_of(device)).id(); });
  m.def("set_stream", [](int64_t id, int device) {
    runtime::exchange_stream(
        c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index_of(device)), id));
  });

  m.def("highest_stream_priority", [](int device) { return runtime::highest_stream_priority(index_of(device)); });
  m.def("stream_priority", [](int64_t id, int device) {
    return runtime::stream_priority(
        c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index_of(device)), id));
  });

  m.def("memory_stats", [](int device) { return runtime::memory_stats(index_of(device)); });
  m.def("memory_snapshot", &memory_snapshot);
  m.def("empty_cache", torch::wrap_pybind_function_no_gil([](int device) { runtime::empty_cache(index_of(device)); }));
  m.def("reset_peak_stats", [](int device) { runtime::reset_peak_stats(index_of(device)); });
  m.def("reset_accumulated_stats", [](int device) { runtime::reset_accumulated_stats(index_of(device)); });
  m.def("set_memory_fraction",
        [](double fraction, int device) { runtime::set_memory_fraction(fraction, index_of(device)); });
  m.def("get_memory_fraction", [](int device) { return runtime::memory_fraction(index_of(device)); });
  m.def("mem_get_info", [](int device) { return runtime::memory_info(index_of(device)); });

  m.def("manual_seed", [](uint64_t seed, int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    g.set_current_seed(seed);
  });
  m.def("seed", [](int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    return g.seed();
  });
  m.def("initial_seed", [](int device) { return runtime::default_generator(index_of(device)).current_seed(); });
  m.def("get_rng_state", [](int device) { return runtime::default_generator(index_of(device)).get_state(); });
  m.def("set_rng_state", [](const at::Tensor& state, int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    g.set_state(state);
  });
  m.def("default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(runtime::default_generator(index_of(device))));
  });

  m.def("fallback_report", [] {
    py::list rows;
    for (const auto& row : ops::fallback_report()) rows.append(py::make_tuple(row.op, row.count, row.first_arguments));
    return rows;
  });
  m.def("reset_fallback_report", &ops::reset_fallback_report);
  m.def("set_strict",
        [](std::optional<bool> strict) { ops::set_strict(strict.value_or(ops::strict_from_environment())); });
  m.def("is_strict", &ops::is_strict);

  m.def("registered_kernels", [] {
    py::list rows;
    const int device = runtime::device_count() > 0 ? runtime::current_device() : -1;
    for (const auto& k : runtime::registered_kernels(device))
      rows.append(py::make_tuple(k.name, k.spirv_bytes, k.supported));
    return rows;
  });
  m.def("shared_bytes", &runtime::shared_bytes);
  m.def("compile_kernel", [](int device, const std::string& name, const std::vector<uint32_t>& constants) {
    runtime::compile_kernel(index_of(device), name, constants);
  });
  m.def("keep_pipeline_statistics", &runtime::keep_pipeline_statistics);
  m.def("active_pipelines", [](int device) { return runtime::active_pipelines(index_of(device)); });
  m.def("validation_message_count", &runtime::validation_message_count);
  m.def("validation_messages", &runtime::validation_messages);
  m.def("inject_allocation_failures", &runtime::inject_allocation_failures);
  m.def("inject_device_lost", [](int device) { runtime::inject_device_lost(index_of(device)); });
}
