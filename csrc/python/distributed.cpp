// Process groups of torch.distributed, where this torch has them.
#include "python/bindings.h"
#include "torch.gen.h"
#if AULE_DISTRIBUTED
#include "distributed/process_group.h"
#endif

namespace aule::python {

#if AULE_DISTRIBUTED
namespace {

c10::intrusive_ptr<c10d::Backend> process_group(const c10::intrusive_ptr<c10d::Backend>& gloo,
                                                const c10::intrusive_ptr<c10d::Backend>& host,
                                                std::shared_ptr<distributed::SharedSegment> segment) {
  return c10::make_intrusive<distributed::ProcessGroupAule>(gloo, host, std::move(segment));
}

}  // namespace
#endif

void bind_distributed([[maybe_unused]] py::module_& m) {
#if AULE_DISTRIBUTED
  using distributed::SharedSegment;
  py::class_<SharedSegment, std::shared_ptr<SharedSegment>>(m, "SharedSegment")
      .def_static("create", &SharedSegment::create)  // None where this host or its settings will not do; the same below
      .def_static("open", &SharedSegment::open)
      .def_property_readonly("name", &SharedSegment::name)
      .def("unlink", &SharedSegment::unlink);
  m.def("process_group", &process_group);
  m.def(
      "close_process_groups",
      [](double seconds) { distributed::close_all(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3))); },
      py::call_guard<py::gil_scoped_release>());
#endif
}

}  // namespace aule::python
