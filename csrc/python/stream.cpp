// Streams: the current one, priorities.
#include "python/bindings.h"

namespace aule::python {

namespace {

c10::Stream stream_of(int64_t id, int device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index_of(device)), id);
}

}  // namespace

void bind_stream(py::module_& m) {
  m.def("current_stream_id", [](int device) { return runtime::current_c10_stream(index_of(device)).id(); });
  m.def("set_stream", [](int64_t id, int device) { runtime::exchange_stream(stream_of(id, device)); });

  m.def("capture_stream_id", &runtime::capture_stream_id);
  m.def("highest_stream_priority", [](int device) { return runtime::highest_stream_priority(index_of(device)); });
  m.def("stream_priority", [](int64_t id, int device) { return runtime::stream_priority(stream_of(id, device)); });
  m.def("stream_load", [](int64_t id, int device) { return runtime::stream_load(stream_of(id, device)); });
  m.def("limit_stream",
        [](int64_t id, int device, uint64_t batches) { runtime::limit_stream(stream_of(id, device), batches); });
}

}  // namespace aule::python
