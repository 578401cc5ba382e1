// Failures of the device become the exceptions of torch_aule/errors.py, whichever way they reach Python.
#include <array>

#include "python/bindings.h"
#include "runtime/device_info.h"

namespace aule::python {
namespace {

std::array<PyObject*, static_cast<size_t>(FailureKind::index)> types{};  // by kind; null until they are given

// Torch's wrappers around operators ask this base for the type, on whatever thread the error was made.
struct PythonFailure : torch::PyTorchError, Failure {
  PythonFailure(FailureKind failure, const std::string& text) : PyTorchError(text), Failure{failure} {}
  PyObject* python_type() override { return types.at(static_cast<size_t>(kind)); }
};

runtime::FailureRaiser raise_before = nullptr;

void raise_in_python(FailureKind kind, const std::string& text) {
  const auto index = static_cast<size_t>(kind);
  if (index < types.size() && types[index] != nullptr) throw PythonFailure(kind, text);
  if (raise_before != nullptr) raise_before(kind, text);
}

}  // namespace

void bind_errors(py::module_& m) {
  m.def("set_error_types", [](py::object vulkan_init, py::object no_compute_queue, py::object out_of_memory,
                              py::object shader_compile, py::object device_lost) {
    const bool first = types[0] == nullptr;
    types = {vulkan_init.release().ptr(), no_compute_queue.release().ptr(), out_of_memory.release().ptr(),
             shader_compile.release().ptr(), device_lost.release().ptr()};  // kept for as long as the process lives
    if (first) raise_before = runtime::set_failure_raiser(&raise_in_python);
  });
  // For tests: what the device layer raises, by the position of its kind.
  m.def("raise_failure",
        [](int kind, const std::string& text) { runtime::raise_failure(static_cast<FailureKind>(kind), text); });
  // For functions bound without Torch's wrapper.
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (torch::PyTorchError& error) {
      PyErr_SetString(error.python_type(), error.what());
    }
  });
}

}  // namespace aule::python
