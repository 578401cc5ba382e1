// Kernels: the table, pipelines, what the driver tells of them; and kernels compiled at run time.
#include <cstring>

#include "core/environment.h"
#include "ops/runtime_kernel.h"
#include "python/bindings.h"
#include "python/number.h"
#include "runtime/device_info.h"

namespace aule::python {
namespace {

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

class PythonKernel {
 public:
  using TensorTuple = std::tuple<std::string, uint32_t, std::string, std::optional<at::ScalarType>, int, bool>;

  PythonKernel(const std::string& name, const py::bytes& spirv, const std::vector<std::string>& features,
               uint32_t params_bytes, bool params_ring,
               const std::vector<std::tuple<std::string, std::string, uint32_t, uint32_t>>& params,
               const std::vector<ConstantRow>& constants, const std::vector<TensorTuple>& tensors)
      : kernel_(name, spirv_words(spirv), features, params_bytes, params_ring, tensors_of(tensors)),
        block_(params_bytes),
        constants_(constants) {
    for (const auto& [own, type, offset, count] : params) params_.push_back({own, type, offset, count});
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
    if (used != params.size()) Constants::unknown(name(), "parameter", params, params_);
    std::vector<uint32_t> spec = words(constants);
    const Grid size = grid_of(name(), grid);
    py::gil_scoped_release free;
    kernel_.launch(tensors, std::move(spec), std::move(block), size);
  }

 private:
  static std::vector<ops::RuntimeKernel::Tensor> tensors_of(const std::vector<TensorTuple>& tuples) {
    std::vector<ops::RuntimeKernel::Tensor> tensors;
    for (const auto& [name, offset, access, dtype, constant, strided] : tuples)
      tensors.push_back({name, offset, access != "read", dtype, constant, strided});
    return tensors;
  }
  std::vector<uint32_t> words(const py::dict& given) const {
    return constants_.words(name(), given, [this](const Constant& c) {
      for (const auto& t : kernel_.tensors())
        if (t.dtype_constant == static_cast<int>(c.number))
          throw py::value_error(name() + ": " + c.name + " is the dtype of " + t.name + " and cannot be given");
    });
  }
  ops::RuntimeKernel kernel_;
  std::vector<unsigned char> block_;
  std::vector<Parameter> params_;
  Constants constants_;
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
  m.def("save_pipelines", torch::wrap_pybind_function_no_gil([](int device) { runtime::save_pipelines(device); }));
  m.def("cache_directory", [] { return environment().pipeline_cache ? cache_directory().string() : std::string(); });

  py::class_<PythonKernel>(m, "RuntimeKernel")
      .def(py::init<const std::string&, const py::bytes&, const std::vector<std::string>&, uint32_t, bool,
                    const std::vector<std::tuple<std::string, std::string, uint32_t, uint32_t>>&,
                    const std::vector<ConstantRow>&, const std::vector<PythonKernel::TensorTuple>&>())
      .def_property_readonly("name", &PythonKernel::name)
      .def_property_readonly("id", &PythonKernel::id)
      .def("shared_bytes", &PythonKernel::shared_bytes)
      .def("launch", &PythonKernel::launch);
}

}  // namespace aule::python
