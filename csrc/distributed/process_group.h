// The c10d backend of device tensors. They are packed into one pinned buffer for each collective, on which gloo works
// (work.h), or into device memory, if the ranks share memory of their host (exchange.h). Tensors of the CPU go straight
// to a gloo of their own: PyTorch and programs call collectives of the CPU on other threads (asynchronous checkpoints),
// and only those of one gloo must have the same order on all ranks.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "distributed/channel.h"
#include "distributed/checks.h"
#include "distributed/layout.h"

namespace aule::distributed {

class ProcessGroupAule final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `segment`: what all ranks share, or null.
  ProcessGroupAule(const c10::intrusive_ptr<c10d::Backend>& gloo, c10::intrusive_ptr<c10d::Backend> host,
                   std::shared_ptr<SharedSegment> segment);
  ~ProcessGroupAule() override;

  const std::string getBackendName() const override { return "aule"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return channel_->gloo().getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& lists, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  void abort() override { close(std::chrono::milliseconds(0)); }
  void shutdown() override;
  void close(std::chrono::milliseconds longest);  // waits that long for what is pending

 private:
  Channel& channel();     // throws if the group is destroyed or has failed
  c10d::Backend& host();  // gloo for tensors of the CPU; throws as channel() does
  Place place() const { return channel_->shared() != nullptr ? Place::device : Place::host; }
  // The ranks' exchange of buffers of device memory; nothing if those are of the host, for gloo.
  std::optional<Exchange> exchange(Exchange::Kind kind, at::Tensor sent, at::Tensor received, int64_t bytes,
                                   std::chrono::milliseconds timeout, int64_t root = 0,
                                   const Reduction* reduction = nullptr);
  WorkPtr tracked(WorkPtr work);
  template <class... P, class... A>
  WorkPtr on_host(WorkPtr (c10d::Backend::*collective)(P...), const A&... arguments);  // of host(), without Python
  WorkPtr submit(Call call, c10::Device device);
  WorkPtr reduce_all(const char* name, c10d::OpType type, const Tensors& tensors, const c10d::ReduceOp& op,
                     std::chrono::milliseconds timeout);
  WorkPtr scatter_sums(const char* name, c10d::OpType type, const Tensors& outputs, const std::vector<Tensors>& inputs,
                       const c10d::ReduceScatterOptions& opts);
  WorkPtr receive(Tensors& tensors, c10d::OpType type, int from, int tag);

  std::mutex mutex_;
  const std::shared_ptr<Channel> channel_;
  const c10::intrusive_ptr<c10d::Backend> host_;
  bool closed_ = false;
  bool coalescing_ = false;
  std::atomic<uint64_t> sequence_ = 0;
  std::vector<WorkPtr> coalesced_;
};

// The same numbers, without the Python object. Gloo's threads let go of tensors after whoever waited for them goes on;
// if the interpreter ends meanwhile, one that takes a Python object along ends the process (tasks.h has more).
at::Tensor without_python(const at::Tensor& tensor);
ProcessGroupAule::Tensors without_python(const ProcessGroupAule::Tensors& tensors);
std::vector<ProcessGroupAule::Tensors> without_python(const std::vector<ProcessGroupAule::Tensors>& lists);
template <class T>
T without_python(const T& other) {
  return other;
}

template <class... P, class... A>
ProcessGroupAule::WorkPtr ProcessGroupAule::on_host(WorkPtr (c10d::Backend::*collective)(P...), const A&... arguments) {
  (check_on_host(arguments), ...);
  std::tuple<A...> own{without_python(arguments)...};
  return tracked(std::apply([&](A&... a) { return (host().*collective)(a...); }, own));
}

void close_all(std::chrono::milliseconds longest);  // before the interpreter ends

}  // namespace aule::distributed
