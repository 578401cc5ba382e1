// The caching allocator's numbers and switches.
#include <ATen/core/CachingHostAllocator.h>

#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/host_allocator.h"

namespace aule::python {
namespace {

py::dict host_memory_stats() {
  const at::HostStats stats = runtime::host_allocator()->get_stats();
  py::dict result;
  const auto put = [&result](const std::string& name, const auto& stat) {
    result[py::str(name + ".current")] = stat.current;
    result[py::str(name + ".peak")] = stat.peak;
    result[py::str(name + ".allocated")] = stat.allocated;
    result[py::str(name + ".freed")] = stat.freed;
  };
  put("allocations", stats.allocations);
  put("allocated_bytes", stats.allocated_bytes);
  put("active_requests", stats.active_requests);
  put("active_bytes", stats.active_bytes);
  return result;
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("memory_stats", [](int device) { return runtime::memory_stats(index_of(device)); });
  m.def("empty_cache", torch::wrap_pybind_function_no_gil([](int device) { runtime::empty_cache(index_of(device)); }));
  m.def("host_memory_stats", &host_memory_stats);
  m.def("reset_peak_host_stats", [] { runtime::host_allocator()->reset_peak_stats(); });
  m.def("reset_accumulated_host_stats", [] { runtime::host_allocator()->reset_accumulated_stats(); });
  m.def("reset_peak_stats", [](int device) { runtime::reset_peak_stats(index_of(device)); });
  m.def("reset_accumulated_stats", [](int device) { runtime::reset_accumulated_stats(index_of(device)); });
  m.def("set_memory_fraction",
        [](double fraction, int device) { runtime::set_memory_fraction(fraction, index_of(device)); });
  m.def("get_memory_fraction", [](int device) { return runtime::memory_fraction(index_of(device)); });
  m.def("pinned_bytes", [](int64_t bytes, int device) {
    return runtime::pinned_bytes(bytes, c10::Device(c10::DeviceType::PrivateUse1, index_of(device)));
  });
  m.def("mem_get_info", [](int device) { return runtime::memory_info(index_of(device)); });
  m.def("memory_layout", [](int device) {
    const auto layout = runtime::memory_layout(index_of(device));
    py::list heaps, types;
    for (const auto& h : layout.heaps) heaps.append(py::make_tuple(h.bytes, h.device_local, h.taken_bytes));
    for (const auto& t : layout.types) types.append(py::make_tuple(t.heap, t.flags));
    py::dict d;
    d["heaps"] = heaps;                     // (bytes, whether local to the device, bytes that this process took)
    d["types"] = types;                     // (heap, VkMemoryPropertyFlags)
    d["mapped_type"] = layout.mapped_type;  // of small blocks that the host sees, where memory is not unified; or -1
    d["mapped_limit_bytes"] = layout.mapped_limit_bytes;
    d["mapped_bytes"] = layout.mapped_bytes;
    return d;
  });
}

}  // namespace aule::python
