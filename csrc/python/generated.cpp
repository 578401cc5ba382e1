// Functions that generated code calls at every step: its kernels, and tensors without the way through
// torch.empty_strided. Both read their arguments with CPython's functions: pybind11's conversions cost more than a
// small kernel's launch.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/Dtype.h>

#include <c10/util/SmallVector.h>

#include "ops/factory/storage.h"
#include "ops/generated/generated_kernel.h"
#include "python/bindings.h"
#include "python/number.h"

namespace aule::python {
namespace {

using ops::GeneratedKernel;

// The result of `body`, with its exceptions as Python's.
template <class Body>
PyObject* guarded(const Body& body) {
  HANDLE_TH_ERRORS
  try {
    return body();
  } catch (const py::builtin_exception& error) {
    error.set_error();
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

struct KernelObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  GeneratedKernel* kernel;
};
const GeneratedKernel& kernel_of(PyObject* self) { return *reinterpret_cast<KernelObject*>(self)->kernel; }

int64_t integer_of(const GeneratedKernel& kernel, const GeneratedKernel::Member& member, PyObject* value) {
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return number;
  }
  return Place{kernel.name(), member.name}.integer(value, INT64_MIN, INT64_MAX);
}

void put_number(GeneratedKernel::Call& call, const GeneratedKernel& kernel, const GeneratedKernel::Member& member,
                PyObject* value, uint32_t place) {
  if (member.is_real()) {
    const bool fast = PyFloat_CheckExact(value);
    call.real(member, fast ? PyFloat_AS_DOUBLE(value) : Place{kernel.name(), member.name}.real(value), place);
  } else {
    call.integer(member, integer_of(kernel, member, value), place);
  }
}

void put(GeneratedKernel::Call& call, const GeneratedKernel& kernel, const GeneratedKernel::Member& member,
         PyObject* value) {
  const bool is_tensor = THPVariable_Check(value);
  if (member.is_tensor()) {
    if (!is_tensor) Place{kernel.name(), member.name}.wrong("a tensor on device aule", value);
    return call.tensor(member, THPVariable_Unpack(value));
  }
  if (member.kind == 'h') {
    if (is_tensor) return call.host(member, THPVariable_Unpack(value));
    if (PyBool_Check(value)) return call.integer(member, value == Py_True ? 1 : 0);
    if (PyFloat_Check(value)) return call.real(member, PyFloat_AS_DOUBLE(value));
  }
  if (member.count == 0) return put_number(call, kernel, member, value, 0);
  if (!PySequence_Check(value) || PySequence_Size(value) != static_cast<Py_ssize_t>(member.count))
    Place{kernel.name(), member.name}.wrong("a sequence of " + std::to_string(member.count), value);
  for (uint32_t i = 0; i < member.count; ++i) {
    const auto item = py::reinterpret_steal<py::object>(PySequence_GetItem(value, static_cast<Py_ssize_t>(i)));
    if (!item) throw py::error_already_set();
    put_number(call, kernel, member, item.ptr(), i);
  }
}

PyObject* kernel_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const GeneratedKernel& kernel = kernel_of(self);
    const auto& members = kernel.members();
    const size_t count = static_cast<size_t>(PyVectorcall_NARGS(flags));
    TORCH_CHECK_TYPE(count == kernel.arguments() + 1 && (keywords == nullptr || PyTuple_GET_SIZE(keywords) == 0),
                     kernel.name(), ": takes ", kernel.arguments(), " arguments and the number of workgroups, but got ",
                     count, " by position", keywords == nullptr ? "" : " and others by name");
    GeneratedKernel::Call call(kernel);
    PyObject* const* next = args;
    for (const GeneratedKernel::Member& member : members)
      if (member.is_argument()) put(call, kernel, member, *next++);
    const Grid grid = grid_of(kernel.name(), *next);
    {
      py::gil_scoped_release free;
      call.launch(grid);
    }
    Py_RETURN_NONE;
  });
}

// A member as reflection has it: name, type, offset, count; and of a tensor what is wanted: dtype, bytes of an element
// (0: any), contiguous, alignment of the address.
using MemberTuple =
    std::tuple<std::string, std::string, uint32_t, uint32_t, std::optional<at::ScalarType>, uint32_t, bool, uint32_t>;

PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* const kNames[] = {"name",      "spirv",     "features", "params_bytes", "params_ring", "members",
                                         "signature", "constants", "given",    "autograd",     nullptr};
    PyObject *name, *spirv, *features, *members, *signature, *constants, *given;
    unsigned params_bytes;
    int params_ring, autograd = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "USOIpOUOO!|p", const_cast<char**>(kNames), &name, &spirv,
                                     &features, &params_bytes, &params_ring, &members, &signature, &constants,
                                     &PyDict_Type, &given, &autograd))
      return nullptr;
    GeneratedKernel::Source source{py::cast<std::string>(py::handle(name)),
                                   spirv_words(py::reinterpret_borrow<py::bytes>(spirv)),
                                   py::cast<std::vector<std::string>>(py::handle(features)),
                                   params_bytes,
                                   params_ring != 0,
                                   {},
                                   {},
                                   autograd != 0};
    const auto letters = py::cast<std::string>(py::handle(signature));
    const auto rows = py::cast<std::vector<MemberTuple>>(py::handle(members));
    TORCH_CHECK_VALUE(letters.size() == rows.size(), source.name, ": the signature ", letters, " has ", letters.size(),
                      " letters, Params has ", rows.size(), " members");
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& [own, its_type, offset, count, dtype, item_bytes, contiguous, align] = rows[i];
      source.members.push_back({own, offset, GeneratedKernel::type_named(its_type), letters[i], count, dtype,
                                item_bytes, contiguous, align});
    }
    const Constants all(py::cast<std::vector<ConstantRow>>(py::handle(constants)));
    source.constants = all.words(source.name, py::reinterpret_borrow<py::dict>(given));
    auto kernel = std::make_unique<GeneratedKernel>(std::move(source));
    auto self = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    auto* object = reinterpret_cast<KernelObject*>(self.ptr());
    object->vectorcall = &kernel_call;
    object->kernel = kernel.release();
    return self.release().ptr();
  });
}

void kernel_dealloc(PyObject* self) {
  delete reinterpret_cast<KernelObject*>(self)->kernel;
  Py_TYPE(self)->tp_free(self);
}

PyObject* kernel_repr(PyObject* self) {
  return PyUnicode_FromFormat("<generated kernel %s(%s)>", kernel_of(self).name().c_str(),
                              kernel_of(self).signature().c_str());
}

PyObject* kernel_prepare(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int device = -1;
    if (!PyArg_ParseTuple(args, "|i", &device)) return nullptr;
    const c10::DeviceIndex index = index_of(device);
    {
      py::gil_scoped_release free;
      kernel_of(self).prepare(index);
    }
    Py_RETURN_NONE;
  });
}

PyObject* kernel_shared_bytes(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(kernel_of(self).shared_bytes()); });
}

PyObject* text(const std::string& value) {
  return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
}

PyMethodDef kernel_methods[] = {
    {"prepare", &kernel_prepare, METH_VARARGS, "prepare(device_index=-1): create the pipeline; releases the GIL."},
    {"shared_bytes", &kernel_shared_bytes, METH_NOARGS, "Bytes of shared memory of a workgroup."},
    {nullptr, nullptr, 0, nullptr}};

int kernel_set_file(PyObject* self, PyObject* value, void*) {
  const char* file = value == nullptr ? nullptr : PyUnicode_AsUTF8(value);
  if (file == nullptr) {
    if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "file cannot be deleted");
    return -1;
  }
  reinterpret_cast<KernelObject*>(self)->kernel->set_file(file);
  return 0;
}

PyGetSetDef kernel_properties[] = {
    {"file", [](PyObject* self, void*) { return text(kernel_of(self).file()); }, &kernel_set_file,
     "The module that launches it, for traces. Only the first that is set counts.", nullptr},
    {"name", [](PyObject* self, void*) { return text(kernel_of(self).name()); }, nullptr, nullptr, nullptr},
    {"__name__", [](PyObject* self, void*) { return text(kernel_of(self).name()); }, nullptr, nullptr, nullptr},
    {"signature", [](PyObject* self, void*) { return text(kernel_of(self).signature()); }, nullptr, nullptr, nullptr},
    {"id", [](PyObject* self, void*) { return PyLong_FromUnsignedLong(static_cast<uint32_t>(kernel_of(self).id())); },
     nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* kernel_type() {
  static PyTypeObject type{};
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
  type.tp_name = "torch_aule._C.GeneratedKernel";
  type.tp_doc = "A kernel of generated code. Called with the members of its Params and the number of workgroups.";
  type.tp_basicsize = sizeof(KernelObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = offsetof(KernelObject, vectorcall);
  type.tp_call = &PyVectorcall_Call;
  type.tp_new = &kernel_new;
  type.tp_dealloc = &kernel_dealloc;
  type.tp_repr = &kernel_repr;
  type.tp_methods = kernel_methods;
  type.tp_getset = kernel_properties;
  return &type;
}

using Sizes = c10::SmallVector<int64_t, 8>;

Sizes sizes_of(PyObject* tuple, const char* name) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "empty_strided_aule: ", name, " must be a tuple");
  Sizes sizes(static_cast<size_t>(PyTuple_GET_SIZE(tuple)));
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)));
    if (sizes[i] == -1 && PyErr_Occurred()) throw py::error_already_set();
  }
  return sizes;
}

// Makes a device the current one while it lives; -1: leaves it.
class OnDevice {
 public:
  explicit OnDevice(c10::DeviceIndex device) : before_(runtime::exchange_device(device)) {}
  ~OnDevice() { runtime::exchange_device(before_); }

 private:
  c10::DeviceIndex before_;
};

PyObject* empty_strided_aule(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 3 || count == 4, "empty_strided_aule: takes size, stride, dtype and device_index=-1");
    const Sizes size = sizes_of(args[0], "size"), stride = sizes_of(args[1], "stride");
    TORCH_CHECK_TYPE(THPDtype_Check(args[2]), "empty_strided_aule: dtype must be a torch.dtype");
    const at::ScalarType dtype = reinterpret_cast<THPDtype*>(args[2])->scalar_type;
    int64_t device = -1;
    if (count == 4) {
      device = PyLong_AsLongLong(args[3]);
      if (device == -1 && PyErr_Occurred()) throw py::error_already_set();
      TORCH_CHECK_VALUE(device >= -1 && device < 128, "empty_strided_aule: no device has the index ", device);
    }
    const OnDevice guard(static_cast<c10::DeviceIndex>(device));
    return THPVariable_Wrap(ops::empty_strided(size, stride, dtype, std::nullopt, std::nullopt, std::nullopt));
  });
}

PyMethodDef functions[] = {
    {"empty_strided_aule", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&empty_strided_aule)),
     METH_FASTCALL, "empty_strided_aule(size, stride, dtype, device_index=-1): positional only."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_generated(py::module_& m) {
  PyTypeObject* type = kernel_type();
  if (PyType_Ready(type) < 0) throw py::error_already_set();
  m.attr("GeneratedKernel") = py::handle(reinterpret_cast<PyObject*>(type));
  if (PyModule_AddFunctions(m.ptr(), functions) < 0) throw py::error_already_set();
}

}  // namespace aule::python
