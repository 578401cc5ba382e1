// Kernels: the table, pipelines, what the driver tells of them; and kernels compiled at run time.
#include <torch/csrc/Dtype.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/environment.h"
#include "ops/runtime_kernel.h"
#include "ops/tensor/tensor_arg.h"
#include "python/bindings.h"
#include "runtime/device_info.h"

namespace aule::python {
namespace {

// One Python value as the bits of a GLSL scalar. Errors name the kernel and the constant or parameter.
struct Place {
  const std::string& kernel;
  const std::string& name;

  [[noreturn]] void wrong(const std::string& wanted, py::handle value) const {
    throw py::type_error(kernel + ": " + name + " takes " + wanted + ", not " + py::cast<std::string>(py::repr(value)));
  }
  int64_t integer(py::handle value, int64_t low, int64_t high) const {
    if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr())) wrong("an int", value);
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!index) throw py::error_already_set();
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0 || number < low || number > high)
      throw py::value_error(kernel + ": " + name + " is " + py::cast<std::string>(py::repr(value)) + ", not between " +
                            std::to_string(low) + " and " + std::to_string(high));
    return number;
  }
  double real(py::handle value) const {
    if (PyBool_Check(value.ptr()) || !PyNumber_Check(value.ptr())) wrong("a number", value);
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) throw py::error_already_set();
    return number;
  }
};

struct Constant {
  std::string name;
  uint32_t number;
  std::string type;
  uint32_t default_;

  uint32_t word(const std::string& kernel, py::handle value) const {
    const Place place{kernel, name};
    if (type == "bool") {
      if (!PyBool_Check(value.ptr())) place.wrong("a bool", value);
      return value.ptr() == Py_True ? 1 : 0;
    }
    if (type == "float") return std::bit_cast<uint32_t>(static_cast<float>(place.real(value)));
    if (type == "uint") return static_cast<uint32_t>(place.integer(value, 0, UINT32_MAX));
    if (name.ends_with("DTYPE")) {
      if (!THPDtype_Check(value.ptr())) place.wrong("a torch.dtype", value);
      return static_cast<uint32_t>(ops::dtype_of(py::cast<at::ScalarType>(value), kernel.c_str()));
    }
    return static_cast<uint32_t>(place.integer(value, INT32_MIN, INT32_MAX));
  }
};

struct Parameter {
  std::string name, type;
  uint32_t offset, count;  // count 0: no array

  uint32_t put(const Place& place, unsigned char* at, py::handle value) const {
    const auto write = [at](auto number) {
      std::memcpy(at, &number, sizeof number);
      return static_cast<uint32_t>(sizeof number);
    };
    if (type == "float") return write(static_cast<float>(place.real(value)));
    if (type == "double") return write(place.real(value));
    if (type == "int32_t") return write(static_cast<int32_t>(place.integer(value, INT32_MIN, INT32_MAX)));
    if (type == "uint32_t") return write(static_cast<uint32_t>(place.integer(value, 0, UINT32_MAX)));
    // Numbers of elements and the like: nobody counts past 2^63.
    return write(place.integer(value, type == "uint64_t" ? 0 : INT64_MIN, INT64_MAX));
  }
  void put_all(const std::string& kernel, unsigned char* block, py::handle value) const {
    const Place place{kernel, name};
    unsigned char* at = block + offset;
    if (count == 0) {
      put(place, at, value);
      return;
    }
    if (!PySequence_Check(value.ptr()) || py::len(value) != count)
      place.wrong("a sequence of " + std::to_string(count), value);
    for (py::handle item : py::reinterpret_borrow<py::sequence>(value)) at += put(place, at, item);
  }
};

std::string names_of(const auto& things) {
  std::string text;
  for (const auto& thing : things) text += (text.empty() ? "" : ", ") + thing.name;
  return text.empty() ? "none" : text;
}

class PythonKernel {
 public:
  using TensorTuple = std::tuple<std::string, uint32_t, std::string, std::optional<at::ScalarType>, int, bool>;

  PythonKernel(const std::string& name, const std::string& spirv, const std::vector<std::string>& features,
               uint32_t params_bytes, bool params_ring,
               const std::vector<std::tuple<std::string, std::string, uint32_t, uint32_t>>& params,
               const std::vector<std::tuple<std::string, uint32_t, std::string, uint32_t>>& constants,
               const std::vector<TensorTuple>& tensors)
      : kernel_(name, words_of(spirv), features, params_bytes, params_ring, tensors_of(tensors)), block_(params_bytes) {
    for (const auto& [own, type, offset, count] : params) params_.push_back({own, type, offset, count});
    for (const auto& [own, number, type, otherwise] : constants) {
      constants_.push_back({own, number, type, otherwise});
      if (defaults_.size() <= number) defaults_.resize(number + 1);
      defaults_[number] = otherwise;
    }
  }

  const std::string& name() const { return kernel_.name(); }
  uint32_t id() const { return static_cast<uint32_t>(kernel_.id()); }
  uint64_t shared_bytes(const py::dict& constants) const { return kernel_.shared_bytes(words(constants)); }

  void launch(const std::vector<at::Tensor>& tensors, py::handle grid, const py::dict& constants,
              const py::dict& params) const {
    std::vector<unsigned char> block = block_;
    size_t used = 0;
    for (const Parameter& p : params_) {
      PyObject* value = PyDict_GetItemString(params.ptr(), p.name.c_str());
      if (value == nullptr) throw py::value_error(name() + ": params lack " + p.name);
      p.put_all(name(), block.data(), value);
      ++used;
    }
    if (used != params.size()) unknown("parameter", params, params_);
    std::vector<uint32_t> spec = words(constants);
    const Grid size = grid_of(grid);
    py::gil_scoped_release free;
    kernel_.launch(tensors, std::move(spec), std::move(block), size);
  }

 private:
  static std::vector<uint32_t> words_of(const std::string& bytes) {
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    return words;
  }
  static std::vector<ops::RuntimeKernel::Tensor> tensors_of(const std::vector<TensorTuple>& tuples) {
    std::vector<ops::RuntimeKernel::Tensor> tensors;
    for (const auto& [name, offset, access, dtype, constant, strided] : tuples)
      tensors.push_back({name, offset, access != "read", dtype, constant, strided});
    return tensors;
  }
  [[noreturn]] void unknown(const char* what, const py::dict& given, const auto& known) const {
    for (const auto& [key, value] : given) {
      const auto text = py::cast<std::string>(py::str(key));
      if (std::none_of(known.begin(), known.end(), [&](const auto& k) { return k.name == text; }))
        throw py::value_error(name() + ": there is no " + what + " " + text + "; there is: " + names_of(known));
    }
    throw py::value_error(name() + ": a " + what + " is given twice");
  }
  std::vector<uint32_t> words(const py::dict& given) const {
    std::vector<uint32_t> result = defaults_;
    size_t used = 0;
    for (const Constant& c : constants_) {
      PyObject* value = PyDict_GetItemString(given.ptr(), c.name.c_str());
      if (value == nullptr) continue;
      for (const auto& t : kernel_.tensors())
        if (t.dtype_constant == static_cast<int>(c.number))
          throw py::value_error(name() + ": " + c.name + " is the dtype of " + t.name + " and cannot be given");
      result[c.number] = c.word(name(), value);
      ++used;
    }
    if (used != given.size()) unknown("constant", given, constants_);
    return result;
  }
  Grid grid_of(py::handle grid) const {
    static const std::string axis = "grid";
    const Place place{name(), axis};
    if (PyIndex_Check(grid.ptr())) return linear_grid(static_cast<uint64_t>(place.integer(grid, 0, 32768LL * 65535)));
    if (!PySequence_Check(grid.ptr()) || py::len(grid) > 3 || py::len(grid) == 0)
      place.wrong("workgroups, or up to three numbers of them", grid);
    uint32_t size[3] = {1, 1, 1};
    int i = 0;
    for (py::handle item : py::reinterpret_borrow<py::sequence>(grid))
      size[i++] = static_cast<uint32_t>(place.integer(item, 0, 65535));
    return {size[0], size[1], size[2]};
  }

  ops::RuntimeKernel kernel_;
  std::vector<unsigned char> block_;
  std::vector<Parameter> params_;
  std::vector<Constant> constants_;
  std::vector<uint32_t> defaults_;
};

}  // namespace

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
  m.def("keep_pipeline_statistics", &runtime::keep_pipeline_statistics);
  m.def("active_pipelines", [](int device) { return runtime::active_pipelines(index_of(device)); });
  m.def("cache_directory", [] { return environment().pipeline_cache ? cache_directory().string() : std::string(); });

  py::class_<PythonKernel>(m, "RuntimeKernel")
      .def(py::init([](const std::string& name, const py::bytes& spirv, const std::vector<std::string>& features,
                       uint32_t params_bytes, bool params_ring,
                       const std::vector<std::tuple<std::string, std::string, uint32_t, uint32_t>>& params,
                       const std::vector<std::tuple<std::string, uint32_t, std::string, uint32_t>>& constants,
                       const std::vector<PythonKernel::TensorTuple>& tensors) {
        return std::make_unique<PythonKernel>(name, std::string(spirv), features, params_bytes, params_ring, params,
                                              constants, tensors);
      }))
      .def_property_readonly("name", &PythonKernel::name)
      .def_property_readonly("id", &PythonKernel::id)
      .def("shared_bytes", &PythonKernel::shared_bytes)
      .def("launch", &PythonKernel::launch);
}

}  // namespace aule::python
