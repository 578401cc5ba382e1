// The report of operators that ran on the CPU.
#include "ops/fallback/fallback.h"
#include "python/bindings.h"

namespace aule::python {

void bind_fallback(py::module_& m) {
  m.def("fallback_report", [] {
    py::list rows;
    for (const auto& row : ops::fallback_report()) rows.append(py::make_tuple(row.op, row.count, row.first_arguments));
    return rows;
  });
  m.def("reset_fallback_report", &ops::reset_fallback_report);
  m.def("recorded_commands", &ops::recorded_commands);
  m.def("set_strict",
        [](std::optional<bool> strict) { ops::set_strict(strict.value_or(ops::strict_from_environment())); });
  m.def("is_strict", &ops::is_strict);
}

}  // namespace aule::python
