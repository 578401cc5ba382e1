// Kernels: the table, pipelines, and what the driver tells of them.
#include "core/environment.h"
#include "python/bindings.h"
#include "runtime/device_info.h"

namespace aule::python {

void bind_kernels(py::module_& m) {
  m.def("loop_guard_of_kernels", &runtime::loop_guard_of_kernels);
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
  m.def("keep_pipeline_statistics", &runtime::keep_pipeline_statistics, py::call_guard<py::gil_scoped_release>());
  m.def("active_pipelines", [](int device) { return runtime::active_pipelines(index_of(device)); });
  m.def("compile_times", [](int device) { return runtime::compile_times(index_of(device)); });
  m.def("save_pipelines", torch::wrap_pybind_function_no_gil([](int device) { runtime::save_pipelines(device); }));
  m.def("cache_directory",
        [] { return environment().disabled.pipeline_cache ? std::string() : cache_directory().string(); });
}

}  // namespace aule::python
