// Snapshots of the caching allocator and its history, in the form that torch.cuda._memory_viz and PyTorch's viewer
// read.
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/memory_history.h"

namespace aule::python {
namespace {

runtime::CallStack gather_python() { return torch::CapturedTraceback::gather(true, true, false); }
runtime::CallStack gather_all() { return torch::CapturedTraceback::gather(true, true, true); }

// Call stacks become lists of frames together, once each: events share stacks, and stacks frames.
class Frames {
 public:
  py::object of(const runtime::CallStack& stack) {
    if (stack == nullptr) return py::list();
    const auto [at, first] = lists_.try_emplace(stack.get());
    if (first) {
      at->second = py::list();
      stacks_.push_back(static_cast<torch::CapturedTraceback*>(stack.get()));  // as gathered above
    }
    return at->second;
  }

  void read() {
    if (stacks_.empty()) return;
    const torch::SymbolizedTracebacks read = torch::symbolize(stacks_);
    std::vector<py::dict> frames;
    frames.reserve(read.all_frames.size());
    for (const auto& frame : read.all_frames) {
      py::dict row;
      row["name"] = py::reinterpret_steal<py::object>(  // of C++ it may be any bytes
          PyUnicode_DecodeUTF8(frame.funcname.data(), static_cast<Py_ssize_t>(frame.funcname.size()), "replace"));
      row["filename"] = py::reinterpret_steal<py::object>(
          PyUnicode_DecodeUTF8(frame.filename.data(), static_cast<Py_ssize_t>(frame.filename.size()), "replace"));
      row["line"] = frame.lineno;
      frames.push_back(std::move(row));
    }
    for (size_t i = 0; i < stacks_.size(); ++i) {
      auto list = lists_.at(stacks_[i]).cast<py::list>();
      for (const uint64_t index : read.tracebacks.at(i)) list.append(frames.at(index));
    }
  }

 private:
  std::unordered_map<c10::GatheredContext*, py::object> lists_;
  std::vector<torch::CapturedTraceback*> stacks_;
};

py::list segment_rows(const std::vector<runtime::SegmentRow>& rows, Frames& frames) {
  py::list segments;
  for (const auto& s : rows) {
    py::list blocks;
    for (const auto& b : s.blocks) {
      py::dict block;
      block["address"] = b.address;
      block["size"] = b.bytes;
      block["requested_size"] = b.requested_bytes;
      block["state"] = b.state;
      block["frames"] = frames.of(b.stack);
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
    segment["frames"] = frames.of(s.stack);
    segment["blocks"] = blocks;
    segments.append(segment);
  }
  return segments;
}

py::list event_rows(const std::vector<runtime::MemoryEvent>& events, Frames& frames) {
  using runtime::MemoryAction;
  py::list rows;
  for (const auto& e : events) {
    py::dict row;
    row["action"] = runtime::kMemoryActions[static_cast<size_t>(e.action)];
    row[e.action == MemoryAction::oom ? "device_free" : "addr"] = e.address;
    row["size"] = e.bytes;
    row["stream"] = e.stream;
    row["time_us"] = e.time_us;
    row["pool_id"] = py::make_tuple(e.pool.first, e.pool.second);
    row["frames"] = frames.of(e.stack);
    rows.append(row);
  }
  return rows;
}

py::list memory_snapshot(int device) {
  Frames frames;
  // The stacks must outlive the reading of them.
  const auto rows = runtime::memory_snapshot(index_of(device));
  py::list segments = segment_rows(rows, frames);
  frames.read();
  return segments;
}

// (segments of all devices, a list of events for each device)
py::tuple memory_history(int devices) {
  Frames frames;
  std::vector<std::vector<runtime::SegmentRow>> rows;
  std::vector<std::vector<runtime::MemoryEvent>> events(static_cast<size_t>(devices));
  for (int device = 0; device < devices; ++device)
    rows.push_back(runtime::memory_snapshot(index_of(device), &events[static_cast<size_t>(device)]));
  py::list segments, traces;
  for (int device = 0; device < devices; ++device) {
    segments += segment_rows(rows[static_cast<size_t>(device)], frames);
    traces.append(event_rows(events[static_cast<size_t>(device)], frames));
  }
  frames.read();
  return py::make_tuple(segments, traces);
}

void start_memory_history(int stacks_of, bool native, size_t max_events, const std::vector<std::string>& skipped,
                          bool keep_past) {
  runtime::MemoryHistoryOptions options;
  options.stacks = static_cast<runtime::StacksOf>(stacks_of);
  options.gather = native ? &gather_all : &gather_python;
  options.max_events = max_events;
  options.keep_past = keep_past;
  for (size_t i = 0; i < std::size(runtime::kMemoryActions); ++i)
    if (std::find(skipped.begin(), skipped.end(), runtime::kMemoryActions[i]) != skipped.end())
      options.skipped |= 1u << i;
  if (options.stacks != runtime::StacksOf::nothing) options.gather();  // throws here where frames of C++ cannot be read
  runtime::start_memory_history(options);
}

}  // namespace

void bind_memory_history(py::module_& m) {
  m.def("memory_snapshot", &memory_snapshot);
  m.def("memory_history", &memory_history);
  m.def("start_memory_history", &start_memory_history);
  m.def("stop_memory_history", &runtime::stop_memory_history);
  m.attr("memory_actions") =
      py::cast(std::vector<std::string>(std::begin(runtime::kMemoryActions), std::end(runtime::kMemoryActions)));
}

}  // namespace aule::python
