// Devices: count, current one, properties, faults for tests.
#include <ATen/Context.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "core/environment.h"
#include "core/settings.h"
#include "python/bindings.h"
#include "runtime/device_info.h"
#include "runtime/sync_debug.h"

namespace aule::python {
namespace {

const char* kind_name(Caps::Kind kind) {
  switch (kind) {
    case Caps::Kind::discrete: return "discrete";
    case Caps::Kind::integrated: return "integrated";
    case Caps::Kind::virtual_gpu: return "virtual";
    case Caps::Kind::cpu: return "cpu";
    default: return "other";
  }
}

const char* vendor_name(const DeviceProfile& profile) {
  switch (profile.vendor()) {
    case Vendor::nvidia: return "nvidia";
    case Vendor::amd: return "amd";
    case Vendor::intel: return "intel";
    case Vendor::other: break;
  }
  return profile.architecture == Architecture::apple ? "apple" : "other";
}

py::dict device_properties(int device) {
  const DeviceProfile& profile = runtime::device_profile(index_of(device));
  py::dict d;
#define FIELD(name) d[#name] = profile.name
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
  FIELD(max_push_constant_bytes);
  FIELD(max_workgroup_invocations);
  d["max_workgroup_size"] = std::to_array(profile.max_workgroup_size);
  d["max_group_count"] = std::to_array(profile.max_group_count);
  FIELD(max_allocation_bytes);
  FIELD(max_buffer_bytes);
  FIELD(timestamp_period_ns);
  FIELD(max_loop_iterations);
  FIELD(driver_loop_limit);
  FIELD(multiprocessors);
  FIELD(multiprocessors_guessed);
#undef FIELD
#define AULE_CAPABILITY(name, lack) d[#name] = profile.name;
#include "core/capabilities.def"
  d["max_shared_bytes"] = profile.shared_bytes;
  d["architecture"] = architecture_name(profile.architecture);
  d["vendor"] = vendor_name(profile);
  d["created"] = runtime::device_created(index_of(device));
  d["kind"] = kind_name(profile.kind);
  d["total_memory"] = profile.device_heap_bytes;
  py::list shapes;
  for (const auto& s : profile.coopmat_shapes)
    shapes.append(py::make_tuple(s.m, s.n, s.k, s.a_type, s.b_type, s.c_type, s.result_type));
  d["coopmat_shapes"] = shapes;
  return d;
}

py::object limit_value(const Limit& limit, const Caps& caps) {
  if (limit.axes == 1) return py::int_(limit.get(caps, 0));
  return py::make_tuple(limit.get(caps, 0), limit.get(caps, 1), limit.get(caps, 2));
}

py::dict device_limits(const Caps& caps) {
  py::dict d;
  for (const Limit& limit : limits()) d[limit.name] = limit_value(limit, caps);
  return d;
}

// A made-up device under the text: its limits, why it is refused, and the parts of the text that are ignored.
py::tuple limited(const std::string& text, const py::dict& own) {
  Caps caps;
  for (const Limit& limit : limits()) {
    const py::tuple values =
        py::isinstance<py::tuple>(own[limit.name]) ? py::tuple(own[limit.name]) : py::make_tuple(own[limit.name]);
    for (int axis = 0; axis < limit.axes; ++axis)
      limit.set(caps, axis, py::cast<uint64_t>(py::object(values[static_cast<size_t>(axis)])));
  }
  const LimitSettings settings = parse_limits(text);
  const std::string refused = apply_limits(settings, caps);
  return py::make_tuple(device_limits(caps), refused, settings.ignored);
}

// Sets of limits by name, and those that this process was given.
py::list sets_of_limits() {
  py::list all;
  const auto& ours = environment().limited.sets;
  for (const DeviceSet& set : device_sets()) {
    py::dict d;
    d["name"] = set.name;
    d["devices"] = set.devices;
    d["limits"] = set.limits;
    d["without"] = parts_of(set.without);
    d["active"] = std::find(ours.begin(), ours.end(), &set) != ours.end();
    all.append(d);
  }
  return all;
}

}  // namespace

void bind_device(py::module_& m) {
  m.def("device_count", &runtime::device_count);
  m.def("unavailable_reason", &runtime::unavailable_reason);
  m.def("is_initialized", [] {
    for (int i = 0; i < runtime::device_count(); ++i)
      if (runtime::device_created(i)) return true;
    return false;
  });
  m.def("init", [] {
    torch::utils::register_fork_handler_for_device_init(at::kPrivateUse1);
    // PyTorch calls no memory pinned for a device before this. It would come here by itself if the first pinned memory
    // were ours, not CUDA's.
    at::globalContext().lazyInitDevice(at::kPrivateUse1);
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
  m.def("device_limits", [](int device) { return device_limits(runtime::device_profile(index_of(device))); });
  m.def("limited", &limited);
  m.def("sets_of_limits", &sets_of_limits);
  m.def("capabilities", [] {  // (name, what is lost without it)
    py::list all;
#define AULE_CAPABILITY(name, lack) all.append(py::make_tuple(#name, lack));
#include "core/capabilities.def"
    return all;
  });
  m.def("synchronize", torch::wrap_pybind_function_no_gil([](int device) { runtime::synchronize(index_of(device)); }));
  m.def("set_sync_debug_mode", &runtime::set_sync_debug_mode);
  m.def("sync_debug_mode", &runtime::sync_debug_mode);
  m.def("is_in_bad_fork",
        [] { return runtime::in_bad_fork() || torch::utils::is_device_in_bad_fork(at::kPrivateUse1); });
  m.def("validation_message_count", &runtime::validation_message_count);
  m.def("validation_messages", &runtime::validation_messages);
  m.def("inject_allocation_failures", &runtime::inject_allocation_failures);
  m.def("inject_device_lost", [](int device) { runtime::inject_device_lost(index_of(device)); });
}

}  // namespace aule::python
