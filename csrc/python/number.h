// Python numbers as C++ ones. Errors name the kernel, and its constant or argument.
#pragma once
#include <bit>
#include <cstring>

#include "ops/tensor/tensor_arg.h"
#include "python/bindings.h"

#include <torch/csrc/Dtype.h>

namespace aule::python {

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

// Workgroups: one number, laid out for linear_group(), or up to three along the axes.
inline Grid grid_of(const std::string& kernel, py::handle grid) {
  static const std::string kAxis = "grid";
  const Place place{kernel, kAxis};
  if (PyIndex_Check(grid.ptr())) return linear_grid(static_cast<uint64_t>(place.integer(grid, 0, 32768LL * 65535)));
  if (!PySequence_Check(grid.ptr()) || py::len(grid) > 3 || py::len(grid) == 0)
    place.wrong("workgroups, or up to three numbers of them", grid);
  uint32_t size[3] = {1, 1, 1};
  int i = 0;
  for (py::handle item : py::reinterpret_borrow<py::sequence>(grid))
    size[i++] = static_cast<uint32_t>(place.integer(item, 0, 65535));
  return {size[0], size[1], size[2]};
}

// A specialization constant as reflection has it.
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
using ConstantRow = std::tuple<std::string, uint32_t, std::string, uint32_t>;

// The constants of a kernel, and their words: those that are given, else their defaults.
class Constants {
 public:
  explicit Constants(const std::vector<ConstantRow>& rows) {
    for (const auto& [own, number, type, otherwise] : rows) {
      all_.push_back({own, number, type, otherwise});
      if (defaults_.size() <= number) defaults_.resize(number + 1);
      defaults_[number] = otherwise;
    }
  }
  std::vector<uint32_t> words(const std::string& kernel, const py::dict& given) const {
    std::vector<uint32_t> result = defaults_;
    size_t used = 0;
    for (const Constant& c : all_) {
      PyObject* value = PyDict_GetItemString(given.ptr(), c.name.c_str());
      if (value == nullptr) continue;
      result[c.number] = c.word(kernel, value);
      ++used;
    }
    if (used != given.size()) unknown(kernel, given);
    return result;
  }

 private:
  [[noreturn]] void unknown(const std::string& kernel, const py::dict& given) const {
    for (const auto& [key, value] : given) {
      const auto text = py::cast<std::string>(py::str(key));
      std::string names;
      bool found = false;
      for (const Constant& c : all_) {
        found |= c.name == text;
        names += (names.empty() ? "" : ", ") + c.name;
      }
      if (!found)
        throw py::value_error(kernel + ": there is no constant " + text +
                              "; there is: " + (names.empty() ? "none" : names));
    }
    throw py::value_error(kernel + ": a constant is given twice");
  }

  std::vector<Constant> all_;
  std::vector<uint32_t> defaults_;
};

inline std::vector<uint32_t> spirv_words(const py::bytes& bytes) {
  const auto text = static_cast<std::string_view>(bytes);
  std::vector<uint32_t> words(text.size() / 4);
  std::memcpy(words.data(), text.data(), words.size() * 4);
  return words;
}

}  // namespace aule::python
