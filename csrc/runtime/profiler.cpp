// torch.profiler's side of the device: what stream/trace.h collects becomes rows of its trace and device times of its
// table.
#include "runtime/profiler.h"

#if __has_include(<kineto/libkineto.h>) && __has_include(<fmt/format.h>)
#define USE_KINETO
#define FMT_HEADER_ONLY
#include <kineto/libkineto.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define AULE_HAS_PROFILER_REGISTRY
#endif

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "stream/trace.h"
#include "vulkan/device.h"

namespace aule::runtime {
namespace {

using libkineto::ActivityType;
using stream::Traced;
using stream::TraceEntry;

// The numbers of this thread's operators, and of its annotations, from the outermost to the one that runs.
struct IdStack {
  std::vector<uint64_t> operations, annotations;
};
IdStack& id_stack() {
  thread_local IdStack stack;
  return stack;
}

uint64_t top(const std::vector<uint64_t>& ids) { return ids.empty() ? 0 : ids.back(); }

ActivityType type_of(Traced what) {
  switch (what) {
    case Traced::copy: return ActivityType::GPU_MEMCPY;
    case Traced::fill: return ActivityType::GPU_MEMSET;
    case Traced::host: return ActivityType::PRIVATEUSE1_RUNTIME;
    default: return ActivityType::CONCURRENT_KERNEL;
  }
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f64: return "float64";
    case DType::i8: return "int8";
    default: return dtype == DType::f32 ? "float32" : "other";
  }
}

// Rates that devices can reach, where they were measured.
struct Roofs {
  std::mutex mutex;
  std::map<int, Roof> of_devices;
};
Roofs& roofs() {
  static auto* const all = new Roofs;  // traces may end after the process's statics
  return *all;
}

// The least time for an entry's bytes and arithmetic; 0 where it is unknown.
double ns_at_the_roof(const TraceEntry& entry) {
  std::lock_guard lock(roofs().mutex);
  const auto found = roofs().of_devices.find(entry.device);
  if (found == roofs().of_devices.end()) return 0;
  const Roof& roof = found->second;
  double seconds = static_cast<double>(entry.bytes) / roof.bytes_per_second;
  const auto rate = roof.flops_per_second.find(dtype_name(entry.dtype));
  if (rate != roof.flops_per_second.end()) seconds = std::max(seconds, entry.flops / rate->second);
  return seconds * 1e9;
}

// From the first to the last command of an annotation on one stream.
struct Span {
  int64_t begin = 0, end = 0;
};
struct SpanKey {
  uint64_t annotation;
  int device;
  int64_t stream;
  auto operator<=>(const SpanKey&) const = default;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}
  ~Session() override {
    if (running_) stream::stop_trace();  // PyTorch gave the trace up
  }

  void start() override {
    stream::start_trace();
    running_ = true;
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    if (!running_) return;
    running_ = false;
    try {
      trace_ = stream::stop_trace();
    } catch (const std::exception& error) {  // a lost device: what came before is lost with it
      errors_.emplace_back(error.what());
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; }, 0, INT64_MAX);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t begin,
                    int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(begin, end, "aule");
    buffer_->gpuOpCount = 0;
    std::map<SpanKey, Span> spans;
    for (const TraceEntry& entry : trace_.entries) {
      const ActivityType type = type_of(entry.what);
      if (entry.begin_ns < begin || entry.end_ns > end || !types_.contains(type)) continue;
      add(entry, type, linked).log(logger);
      if (entry.what == Traced::host || entry.ids.annotation == 0) continue;
      const auto [at, first] =
          spans.try_emplace({entry.ids.annotation, entry.device, entry.stream}, Span{entry.begin_ns, entry.end_ns});
      if (first) continue;
      at->second.begin = std::min(at->second.begin, entry.begin_ns);
      at->second.end = std::max(at->second.end, entry.end_ns);
    }
    if (!types_.contains(ActivityType::GPU_USER_ANNOTATION)) return;
    for (const auto& [key, span] : spans) {
      const auto* of = linked(static_cast<int32_t>(key.annotation));
      if (of == nullptr) continue;
      auto& row = make(ActivityType::GPU_USER_ANNOTATION, of->name());
      row.startTime = span.begin;
      row.endTime = span.end;
      row.device = key.device;
      row.resource = static_cast<int32_t>(key.stream);
      row.id = static_cast<int32_t>(key.annotation);
      row.linked = of;
      row.log(logger);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::set<std::pair<int, int64_t>> rows;
    for (const TraceEntry& entry : trace_.entries)
      if (entry.what != Traced::host) rows.emplace(entry.device, entry.stream);
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [device, id] : rows) {
      const std::string name = id == 0 ? "default stream" : "stream " + std::to_string(id);
      infos.push_back({id, id, device, "aule:" + std::to_string(device) + " " + name});
    }
    return infos;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override {
    id_stack().operations.push_back(id);
    stream::trace_ids().operation = id;
  }
  void popCorrelationId() override { pop(id_stack().operations, stream::trace_ids().operation); }
  void pushUserCorrelationId(uint64_t id) override {
    id_stack().annotations.push_back(id);
    stream::trace_ids().annotation = id;
  }
  void popUserCorrelationId() override { pop(id_stack().annotations, stream::trace_ids().annotation); }

  std::unordered_map<std::string, std::string> getMetadata() override {
    std::unordered_map<std::string, std::string> data;
    for (const stream::TraceClock& clock : trace_.clocks) {
      const std::string name = "aule:" + std::to_string(clock.device);
      data[name + " clock"] = clock.calibrated ? "\"calibrated by the driver\"" : "\"by submissions\"";
      data[name + " clock error ns"] = std::to_string(clock.error_ns);
    }
    if (trace_.dropped > 0) data["aule commands without a time"] = std::to_string(trace_.dropped);
    return data;
  }

 private:
  static void pop(std::vector<uint64_t>& ids, uint64_t& current) {
    if (!ids.empty()) ids.pop_back();
    current = top(ids);
  }

  libkineto::GenericTraceActivity& make(ActivityType type, const std::string& name) {
    buffer_->emplace_activity(buffer_->span, type, name);
    return *buffer_->activities.back();
  }

  libkineto::GenericTraceActivity& add(const TraceEntry& entry, ActivityType type,
                                       const libkineto::getLinkedActivityCallback& linked) {
    auto& row = make(type, entry.name);
    row.startTime = entry.begin_ns;
    row.endTime = entry.end_ns;
    row.id = static_cast<int32_t>(entry.ids.operation);
    if (entry.what == Traced::host) {
      row.id = -1;  // an operator's number would give this row its kernels' time, too
      row.device = libkineto::processId();
      row.resource = row.threadId = static_cast<int32_t>(entry.thread);
    } else {
      row.device = entry.device;
      row.resource = static_cast<int32_t>(entry.stream);
      ++buffer_->gpuOpCount;
      row.addMetadata("device", entry.device);
      row.addMetadata("stream", entry.stream);
      row.addMetadata("correlation", entry.ids.operation);
    }
    const auto* of = entry.ids.operation == 0 ? nullptr : linked(static_cast<int32_t>(entry.ids.operation));
    if (of != nullptr && entry.what != Traced::host) {
      row.linked = of;
      row.flow.id = static_cast<uint32_t>(entry.ids.operation);
      row.flow.type = libkineto::kLinkAsyncCpuGpu;
      row.flow.start = 0;
    }
    if (entry.what == Traced::kernel) {
      row.addMetadata("grid", fmt::format("[{}, {}, {}]", entry.grid.x, entry.grid.y, entry.grid.z));
      if (!entry.source.empty()) row.addMetadataQuoted("source", entry.source);
      if (entry.grid.tail != 0) row.addMetadata("further workgroups", entry.grid.tail);
    }
    if (entry.what == Traced::kernel && entry.end_ns > entry.begin_ns) {
      const double share = ns_at_the_roof(entry) / static_cast<double>(entry.end_ns - entry.begin_ns);
      if (share > 0) row.addMetadata("of the roof (%)", fmt::format("{:.2f}", 100 * share));
    }
    if (entry.what == Traced::replay) {
      row.addMetadata("commands", entry.bytes);
    } else if (entry.what != Traced::host) {
      row.addMetadata("bytes", entry.bytes);
      const auto ns = static_cast<double>(entry.end_ns - entry.begin_ns);
      if (entry.flops > 0) {
        row.addMetadata("flops", fmt::format("{:.12g}", entry.flops));
        row.addMetadataQuoted("flops of", dtype_name(entry.dtype));
        if (ns > 0) row.addMetadata("arithmetic (TFLOPS)", fmt::format("{:.4f}", entry.flops / ns * 1e-3));
      }
      if (ns > 0) row.addMetadata("bandwidth (GB/s)", fmt::format("{:.3f}", static_cast<double>(entry.bytes) / ns));
    }
    return row;
  }

  std::set<ActivityType> types_;
  bool running_ = false;
  stream::Trace trace_;
  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "aule";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                              ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION,
                                              ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    // The host's activities alone ask for our submissions and waits, too: not worth a timestamp for each command.
    if (!types.contains(ActivityType::CONCURRENT_KERNEL)) return nullptr;
    std::set<ActivityType> mine;
    for (const ActivityType type : availableActivities())
      if (types.contains(type)) mine.insert(type);
    return std::make_unique<Session>(std::move(mine));
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

void set_roof(int device, Roof roof) {
  std::lock_guard lock(roofs().mutex);
  if (roof.bytes_per_second > 0)
    roofs().of_devices.insert_or_assign(device, std::move(roof));
  else
    roofs().of_devices.erase(device);
}

void register_profiler() {
#ifdef AULE_HAS_PROFILER_REGISTRY
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
#else
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
#endif
}

}  // namespace aule::runtime

#else
namespace aule::runtime {
void set_roof(int, Roof) {}
void register_profiler() {}  // a torch without kineto
}  // namespace aule::runtime
#endif
