// torch.profiler's side of the device, and labels of command buffers.
#include "runtime/profiler.h"

#include "python/bindings.h"

namespace aule::python {

void bind_profiler(py::module_& m) {
  runtime::register_profiler();
  runtime::register_profiler_stubs();
  m.def("set_roof", [](int device, double bytes_per_second, std::map<std::string, double> flops_per_second) {
    runtime::set_roof(device, {bytes_per_second, std::move(flops_per_second)});
  });
  m.def("push_label", [](const std::string& name) { runtime::push_label(name.c_str()); });
  m.def("pop_label", &runtime::pop_label);
}

}  // namespace aule::python
