// The caching allocator's numbers and switches.
#include <ATen/core/CachingHostAllocator.h>

#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/host_allocator.h"

namespace aule::python {
namespace {

py::list memory_snapshot(int device) {
  py::list segments;
  for (const auto& s : runtime::memory_snapshot(index_of(device))) {
    py::list blocks;
    for (const auto& b : s.blocks) {
      py::dict block;
      block["address"] = b.address;
      block["size"] = b.bytes;
      block["requested_size"] = b.requested_bytes;
      block["state"] = b.state;
      block["frames"] = py::list();
      blocks.append(block);
    }
    py::dict segment;
    segment["device"] = s.device;
    segment["address"] = s.address;
    segment["total_size"] = s.total_bytes;
    segment["allocated_size"] = s.allocated_bytes;
    segment["active_size"] = s.active_bytes;
    segment["stream"] = s.stream;
    segment["segment_type"] = s.large ? "large" : "small";
    segment["segment_pool_id"] = py::make_tuple(s.pool.first, s.pool.second);
    segment["is_expandable"] = false;
    segment["frames"] = py::list();
    segment["blocks"] = blocks;
    segments.append(segment);
  }
  return segments;
}

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
  m.def("memory_snapshot", &memory_snapshot);
  m.def("empty_cache", torch::wrap_pybind_function_no_gil([](int device) { runtime::empty_cache(index_of(device)); }));
  m.def("host_memory_stats", &host_memory_stats);
  m.def("reset_peak_host_stats", [] { runtime::host_allocator()->reset_peak_stats(); });
  m.def("reset_accumulated_host_stats", [] { runtime::host_allocator()->reset_accumulated_stats(); });
  m.def("reset_peak_stats", [](int device) { runtime::reset_peak_stats(index_of(device)); });
  m.def("reset_accumulated_stats", [](int device) { runtime::reset_accumulated_stats(index_of(device)); });
  m.def("set_memory_fraction",
        [](double fraction, int device) { runtime::set_memory_fraction(fraction, index_of(device)); });
  m.def("get_memory_fraction", [](int device) { return runtime::memory_fraction(index_of(device)); });
  m.def("mem_get_info", [](int device) { return runtime::memory_info(index_of(device)); });
}

}  // namespace aule::python
