// The transfer engine.
#include <iterator>

#include "python/bindings.h"
#include "runtime/transfers.h"

namespace aule::python {

using runtime::TransferEngine;

void bind_transfers(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> released;  // the engine's mutex may be wanted by a thread without it
  py::class_<TransferEngine>(m, "TransferEngine")
      .def(py::init([](int device, uint64_t piece_bytes, uint64_t depth) {
        return std::make_unique<TransferEngine>(index_of(device), piece_bytes, depth);
      }))
      .def("enqueue", &TransferEngine::enqueue, released)
      .def("cancel", &TransferEngine::cancel, released)
      .def("wait", &TransferEngine::wait, released)
      .def("synchronize", &TransferEngine::synchronize, released)
      .def("advance", &TransferEngine::advance, released)
      .def("pending", &TransferEngine::pending, released)
      .def(
          "state",
          [](TransferEngine& engine, int64_t id) {
            return runtime::kTransferStates[static_cast<size_t>(engine.state(id))];
          },
          released)
      .def("stats", [](TransferEngine& engine) {
        py::dict all;
        for (size_t i = 0; i < std::size(runtime::kDirections); ++i) {
          runtime::TransferStats stats;
          {
            const py::gil_scoped_release unlocked;
            stats = engine.stats(static_cast<runtime::Direction>(i));
          }
          py::dict row;
          row["queued"] = stats.queued;
          row["running"] = stats.running;
          row["completed"] = stats.completed;
          row["cancelled"] = stats.cancelled;
          row["bytes"] = stats.bytes;
          row["seconds"] = stats.seconds;
          row["deepest_queue"] = stats.deepest;
          all[runtime::kDirections[i]] = row;
        }
        return all;
      });
}

}  // namespace aule::python
