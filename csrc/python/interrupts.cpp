// Signals while the host waits for the device: Python's handlers run then, and Ctrl-C is a KeyboardInterrupt. They run
// on the thread that Python calls the main one; a wait on another thread goes on, as everything there does.
#include <functional>
#include <optional>

#include "python/bindings.h"

namespace aule::python {
namespace {

unsigned long main_thread = 0;

bool may_run_handlers() { return PyThread_get_thread_ident() == main_thread && Py_IsInitialized(); }

void check_signals() {
  if (!may_run_handlers()) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_Occurred() || PyErr_CheckSignals() == 0) return;
  python_error error;
  error.persist();
  throw error;
}

bool signal_pending() {
  if (!may_run_handlers()) return false;
  const py::gil_scoped_acquire gil;
  if (!PyOS_InterruptOccurred()) return false;
  PyErr_SetInterrupt();  // asking has taken it
  return true;
}

void unlocked(const std::function<void()>& wait) {
  std::optional<py::gil_scoped_release> released;
  if (Py_IsInitialized() && PyGILState_Check()) released.emplace();
  wait();
}

constexpr runtime::InterruptHooks kHooks{&check_signals, &signal_pending, &unlocked};

}  // namespace

void bind_interrupts(py::module_&) {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  runtime::set_interrupt_hooks(&kHooks);
  // For functions bound without Torch's wrapper, which knows this exception itself.
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (python_error& error) {
      error.restore();
    }
  });
}

}  // namespace aule::python
