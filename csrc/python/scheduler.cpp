// The core of the scheduler, and the quotas of streams.
#include <c10/core/DeviceGuard.h>

#include <iterator>

#include "python/bindings.h"
#include "runtime/allocator.h"
#include "runtime/scheduler.h"

namespace aule::python {
namespace {

using runtime::TaskScheduler;

py::dict decision_row(const runtime::Decision& decision) {
  py::dict row;
  row["time_us"] = decision.time_us;
  row["task"] = decision.task;
  row["verdict"] = runtime::kVerdicts[static_cast<size_t>(decision.verdict)];
  row["reason"] = runtime::kReasons[static_cast<size_t>(decision.reason)];
  row["position"] = decision.position;
  row["estimate_us"] = decision.estimate_us;
  return row;
}

py::dict submit(TaskScheduler& scheduler, int qos, std::optional<int> priority, uint64_t memory, double bandwidth,
                const std::vector<int64_t>& dependencies, int64_t context, int64_t stream, int64_t now_us,
                int64_t device_us) {
  runtime::TaskRequest request;
  request.qos = static_cast<runtime::QosClass>(qos);
  request.priority = priority;
  request.memory_bytes = memory;
  request.bandwidth = bandwidth;
  request.dependencies = dependencies;
  request.context = context;
  request.stream = stream;
  request.device_us = device_us;
  return decision_row(scheduler.submit(request, now_us));
}

py::dict task_stats(const TaskScheduler& scheduler, int64_t task, int64_t now_us) {
  const auto stats = scheduler.stats(task, now_us);
  py::dict row;
  row["state"] = runtime::kTaskStates[static_cast<size_t>(stats.state)];
  row["policy"] = runtime::kQosPolicies[static_cast<size_t>(stats.request->qos)].name;
  row["priority"] = stats.priority;
  row["wait_us"] = stats.wait_us;
  row["run_us"] = stats.run_us;
  row["device_us"] = stats.device_us;
  row["memory"] = stats.request->memory_bytes;
  row["bandwidth"] = stats.request->bandwidth;
  row["dependencies"] = stats.request->dependencies;
  return row;
}

py::dict global_stats(const TaskScheduler& scheduler) {
  py::dict all;
  for (size_t i = 0; i < std::size(runtime::kQosPolicies); ++i) {
    const auto& sums = scheduler.stats(static_cast<runtime::QosClass>(i));
    py::dict row;
    row["submitted"] = sums.submitted;
    row["completed"] = sums.completed;
    row["failed"] = sums.failed;
    row["cancelled"] = sums.cancelled;
    row["rejected"] = sums.rejected;
    row["wait_us"] = sums.wait_us;
    row["device_us"] = sums.device_us;
    all[runtime::kQosPolicies[i].name] = row;
  }
  all["waiting"] = scheduler.waiting();
  all["running"] = scheduler.running();
  all["committed_bytes"] = scheduler.committed_bytes();
  all["committed_bandwidth"] = scheduler.committed_bandwidth();
  return all;
}

py::list decisions(const TaskScheduler& scheduler) {
  py::list rows;
  for (const auto& decision : scheduler.decisions()) rows.append(decision_row(decision));
  return rows;
}

// Whether Torch can take back what makes a storage refuse its address (2.13 can, 2.11 cannot).
template <typename Impl>
constexpr bool kForgetsErrors = requires(Impl* impl) { impl->clear_data_ptr_access_error_msg_(); };

template <typename Impl>
void refuse_address(Impl* impl) {
  if constexpr (kForgetsErrors<Impl>)
    impl->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "aule: the tensor's storage has no memory, its values wait on the host (torch_aule.scheduler): use it in a "
        "task that names it in its `uses`, or release it");
}
template <typename Impl>
void give_address(Impl* impl) {
  if constexpr (kForgetsErrors<Impl>) impl->clear_data_ptr_access_error_msg_();
}

// Storage that waits on the host keeps its size, so that nothing takes it for one to be grown. Whoever asks for its
// address, or resizes it, by whatever road, is told why there is none; with an older Torch operators are.
void release_storage(const at::Tensor& tensor) {
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  impl->set_data_ptr_noswap(c10::DataPtr(nullptr, impl->device()));
  refuse_address(impl);
}

void restore_storage(const at::Tensor& tensor) {
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  const c10::DeviceGuard guard(impl->device());
  impl->set_data_ptr_noswap(impl->allocator()->allocate(impl->nbytes()));
  give_address(impl);
}

}  // namespace

void bind_scheduler(py::module_& m) {
  m.attr("evicted_storages_refuse") = kForgetsErrors<c10::StorageImpl>;
  py::class_<TaskScheduler>(m, "TaskScheduler")
      .def(py::init([](uint64_t memory, uint64_t max_queued, uint64_t max_running, int64_t window_us) {
        return TaskScheduler({memory, max_queued, max_running, window_us});
      }))
      .def(
          "add_context",
          [](TaskScheduler& scheduler, int64_t id, uint64_t max_bytes, uint64_t base_bytes, uint64_t max_running,
             double max_bandwidth) {
            return scheduler.add_context(id, {max_bytes, base_bytes, max_running, max_bandwidth});
          },
          py::arg(), py::arg(), py::arg(), py::arg("max_running") = UINT64_MAX, py::arg("max_bandwidth") = 1.0)
      .def("remove_context", &TaskScheduler::remove_context)
      .def("set_share", &TaskScheduler::set_share)
      .def("submit", &submit, py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(),
           py::arg("device_us") = 0)
      .def("next", &TaskScheduler::next)
      .def("finish", &TaskScheduler::finish)
      .def("cancel", &TaskScheduler::cancel)
      .def("forget", &TaskScheduler::forget)
      .def("stats", &task_stats)
      .def("global_stats", &global_stats)
      .def("decisions", &decisions);
  py::list policies;
  for (const auto& p : runtime::kQosPolicies)
    policies.append(py::make_tuple(p.name, p.priority, p.memory_overcommit, p.bandwidth, p.reserves));
  m.attr("qos_policies") = policies;
  m.attr("task_states") =
      py::cast(std::vector<std::string>(std::begin(runtime::kTaskStates), std::end(runtime::kTaskStates)));
  m.def("set_stream_quota",
        [](int device, const std::vector<int64_t>& streams, uint64_t bytes, const std::string& name) {
          runtime::set_stream_quota(index_of(device), streams, bytes, name);
        });
  m.def("clear_stream_quota",
        [](int device, int64_t stream) { runtime::clear_stream_quota(index_of(device), stream); });
  m.def("release_storage", &release_storage);
  m.def("restore_storage", &restore_storage);
  m.def("stream_bytes", [](int device, int64_t stream) { return runtime::stream_bytes(index_of(device), stream); });
}

}  // namespace aule::python
