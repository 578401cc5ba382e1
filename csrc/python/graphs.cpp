// Graphs, and captured calls of compiled functions (torch_aule/compile/replay.py).
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>

#include "python/bindings.h"
#include "runtime/captured_call.h"
#include "runtime/graph.h"

namespace aule::python {
namespace {

using runtime::CallInputs;
using runtime::CapturedCall;

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch() && !tensor.is_conj() && !tensor.is_neg();
}

// False if an input is none of: an int, a plain strided tensor of the device, a scalar tensor on the host. The tensors
// stay the list's.
bool inputs_of(const py::list& list, c10::DeviceIndex device, CallInputs& inputs) {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(list.ptr()));
  inputs.resize(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i));
    if (THPVariable_Check(item)) {
      const at::Tensor& tensor = THPVariable_Unpack(item);
      inputs[i].tensor = &tensor;
      if (!is_plain(tensor)) return false;
      if (tensor.is_privateuseone()) {
        if (tensor.get_device() != device) return false;
        continue;
      }
      if (!tensor.is_cpu() || tensor.dim() != 0 || tensor.itemsize() > sizeof(int64_t)) return false;
      inputs[i].on_host = true;
      std::memcpy(&inputs[i].number, tensor.const_data_ptr(), tensor.itemsize());
    } else if (PyLong_CheckExact(item)) {
      int overflow = 0;
      inputs[i].number = PyLong_AsLongLongAndOverflow(item, &overflow);
      if (overflow != 0) return false;
    } else {
      return false;
    }
  }
  return true;
}

class PythonCall {
 public:
  PythonCall(int device, const py::list& inputs, const std::vector<bool>& by_address, bool copies,
             const PythonCall* like) {
    CallInputs given;
    TORCH_CHECK_TYPE(inputs_of(inputs, index_of(device), given), "an input cannot be captured");
    TORCH_CHECK_VALUE(by_address.size() == given.size(), "one flag for each input is needed");
    call_ = std::make_unique<CapturedCall>(index_of(device), given, by_address, copies,
                                           like != nullptr ? like->call_.get() : nullptr);
    numbers_.reserve(given.size());
    for (const auto& in : given) numbers_.push_back(in.number);
  }

  py::list begin() {
    py::list inputs;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const at::Tensor tensor = call_->input(i);
      inputs.append(tensor.defined() ? py::cast(tensor) : py::cast(numbers_[i]));
    }
    call_->begin();
    return inputs;
  }
  void end(const py::sequence& outputs) {
    std::vector<std::optional<at::Tensor>> tensors;
    for (py::handle item : outputs) {
      const bool is_tensor = THPVariable_Check(item.ptr());
      TORCH_CHECK_TYPE(is_tensor || item.is_none() || PyLong_CheckExact(item.ptr()),
                       "an output is neither a tensor nor an int nor None");
      tensors.push_back(is_tensor ? std::optional(THPVariable_Unpack(item.ptr())) : std::nullopt);
      others_.push_back(is_tensor ? py::object() : py::reinterpret_borrow<py::object>(item));
    }
    call_->end(tensors);
  }
  void abandon() { call_->abandon(); }

  py::list replay(const CallInputs& inputs) {
    const std::vector<at::Tensor> tensors = call_->replay(inputs);
    py::list outputs(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      outputs[i] = tensors[i].defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(tensors[i])) : others_[i];
    return outputs;
  }
  CapturedCall& call() { return *call_; }
  // None where an input is of a kind that no call takes.
  CapturedCall::Fit fits(const py::list& inputs) const {
    CallInputs given;
    return inputs_of(inputs, call_->device(), given) ? call_->fits(given) : CapturedCall::Fit::none;
  }
  std::vector<size_t> moved(const py::list& inputs) const {
    CallInputs given;
    if (!inputs_of(inputs, call_->device(), given) || call_->fits(given) == CapturedCall::Fit::none) return {};
    return call_->moved(given);
  }

 private:
  std::unique_ptr<CapturedCall> call_;
  std::vector<int64_t> numbers_;    // of inputs that are no tensors
  std::vector<py::object> others_;  // outputs that are no tensors
};

// The captured calls of one function.
class CallTable {
 public:
  explicit CallTable(int device) : device_(index_of(device)) {}

  void add(std::shared_ptr<PythonCall> call) { calls_.push_back(std::move(call)); }
  const std::vector<std::shared_ptr<PythonCall>>& calls() const { return calls_; }
  void remove(const std::shared_ptr<PythonCall>& call) { std::erase(calls_, call); }
  void clear() { calls_.clear(); }

  // The outputs, or None if no call fits or all that do have outputs alive. Empties `list`, as a compiled function
  // does.
  py::object replay(const py::list& list) {
    if (calls_.empty() || runtime::is_capturing(device_)) return py::none();
    {
      // Here, so that a host that is far ahead of the device does not wait with the interpreter's lock.
      py::gil_scoped_release free;
      runtime::wait_for_replays(device_);
    }
    CallInputs inputs;
    if (!inputs_of(list, device_, inputs)) return py::none();
    std::shared_ptr<PythonCall> copying;
    for (const auto& call : calls_) {
      CapturedCall& c = call->call();
      if (!c.is_free() || c.fits(inputs) != CapturedCall::Fit::whole) continue;
      if (!c.copies()) return run(call, inputs, list);
      if (copying == nullptr) copying = call;
    }
    return copying != nullptr ? run(copying, inputs, list) : py::none();
  }

 private:
  static py::object run(std::shared_ptr<PythonCall> call, const CallInputs& inputs, const py::list& list) {
    py::list outputs = call->replay(inputs);
    if (PyList_SetSlice(list.ptr(), 0, PyList_GET_SIZE(list.ptr()), nullptr) != 0) throw py::error_already_set();
    return outputs;
  }

  c10::DeviceIndex device_;
  std::vector<std::shared_ptr<PythonCall>> calls_;
};

}  // namespace

void bind_graphs(py::module_& m) {
  m.def("fresh_pool", &runtime::fresh_pool);
  m.def("in_a_graph", [](int device, uint64_t address, uint64_t bytes) {
    return runtime::in_a_graph(index_of(device), address, bytes);
  });
  m.def("is_capturing", [] { return runtime::is_capturing(); });
  py::class_<runtime::Graph>(m, "Graph")
      .def(py::init<>())
      .def(
          "capture_begin", [](runtime::Graph& g, c10::MempoolId_t pool) { g.capture_begin(pool); },
          py::arg("pool") = c10::MempoolId_t{0, 0})
      .def("capture_end", &runtime::Graph::capture_end)
      .def("replay", &runtime::Graph::replay, py::call_guard<py::gil_scoped_release>())
      .def("reset", &runtime::Graph::reset, py::call_guard<py::gil_scoped_release>())
      .def("pool", &runtime::Graph::pool)
      .def("debug_dump", &runtime::Graph::debug_dump)
      .def_property_readonly("commands", [](const runtime::Graph& g) { return g.counts().commands; });

  py::enum_<CapturedCall::Fit>(m, "Fit")
      .value("none", CapturedCall::Fit::none)
      .value("moved", CapturedCall::Fit::moved)
      .value("whole", CapturedCall::Fit::whole);
  py::class_<PythonCall, std::shared_ptr<PythonCall>>(m, "CapturedCall")
      .def(py::init<int, const py::list&, const std::vector<bool>&, bool, const PythonCall*>(), py::arg("device"),
           py::arg("inputs"), py::arg("by_address"), py::arg("copies") = false, py::arg("like") = nullptr)
      .def("begin", &PythonCall::begin)
      .def("end", &PythonCall::end)
      .def("abandon", &PythonCall::abandon)
      .def("fits", &PythonCall::fits)
      .def("moved", &PythonCall::moved)
      .def_property_readonly("copies", [](PythonCall& c) { return c.call().copies(); })
      .def_property_readonly("names_random_state", [](PythonCall& c) { return c.call().names_random_state(); })
      .def_property_readonly("outputs_alive", [](PythonCall& c) { return c.call().outputs_alive(); })
      .def_property_readonly("commands", [](PythonCall& c) { return c.call().commands(); })
      .def_property_readonly("pool_bytes", [](PythonCall& c) { return c.call().pool_bytes(); });
  py::class_<CallTable>(m, "CallTable")
      .def(py::init<int>())
      .def("add", &CallTable::add)
      .def("remove", &CallTable::remove)
      .def("clear", &CallTable::clear)
      .def_property_readonly("calls", [](const CallTable& t) { return t.calls(); })
      .def("replay", &CallTable::replay);
  // Whether calls may take these inputs at all.
  m.def("can_be_captured", [](const py::list& inputs, int device) {
    CallInputs given;
    return inputs_of(inputs, index_of(device), given);
  });
  m.def("is_output_of_call", &runtime::is_output_of_call);
}

}  // namespace aule::python
