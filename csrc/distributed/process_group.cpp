#include "distributed/process_group.h"

#include <functional>
#include <set>

#include "distributed/checks.h"
#include "distributed/layout.h"
#include "runtime/streams.h"

namespace aule::distributed {
namespace {

constexpr auto kShutdown = std::chrono::seconds(2);

std::mutex g_mutex;
std::set<ProcessGroupAule*>& groups() {
  static auto* all = new std::set<ProcessGroupAule*>;
  return *all;
}

// Gloo's part of a reduction on all ranks, in place in `buffer`.
std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)> reducing(const at::Tensor& buffer,
                                                                       const Reduction& reduction,
                                                                       std::chrono::milliseconds timeout) {
  return [numbers = buffer.view(reduction.numbers), op = reduction.op,
          timeout](c10d::Backend& gloo) -> c10::intrusive_ptr<c10d::Work> {
    if (numbers.numel() == 0) return {};
    std::vector<at::Tensor> one{numbers};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    options.timeout = timeout;
    return gloo.allreduce(one, options);
  };
}

}  // namespace

ProcessGroupAule::ProcessGroupAule(const c10::intrusive_ptr<c10d::Backend>& gloo,
                                   c10::intrusive_ptr<c10d::Backend> host, std::shared_ptr<SharedSegment> segment)
    : c10d::Backend(gloo->getRank(), gloo->getSize()),
      channel_(std::make_shared<Channel>(gloo, std::move(segment))),
      host_(std::move(host)) {
  init();
  std::lock_guard lock(g_mutex);
  groups().insert(this);
}

ProcessGroupAule::~ProcessGroupAule() {
  if (runtime::in_bad_fork()) {  // gloo would wait for its threads, which this process does not have
    new auto(channel_);
    new auto(host_);
    return;
  }
  std::lock_guard lock(g_mutex);
  groups().erase(this);
}

at::Tensor without_python(const at::Tensor& tensor) {
  // Sums of sparse tensors become new indices and values of the tensor itself.
  if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      tensor.unsafeGetTensorImpl()->version_counter(), /*allow_tensor_metadata_change=*/true));
}

ProcessGroupAule::Tensors without_python(const ProcessGroupAule::Tensors& tensors) {
  ProcessGroupAule::Tensors own;
  for (const at::Tensor& t : tensors) own.push_back(without_python(t));
  return own;
}

std::vector<ProcessGroupAule::Tensors> without_python(const std::vector<ProcessGroupAule::Tensors>& lists) {
  std::vector<ProcessGroupAule::Tensors> own;
  for (const ProcessGroupAule::Tensors& list : lists) own.push_back(without_python(list));
  return own;
}

void close_all(std::chrono::milliseconds longest) {
  std::lock_guard lock(g_mutex);
  for (ProcessGroupAule* group : groups()) group->close(longest);
  hold_threads(longest);
}

void ProcessGroupAule::shutdown() { close(kShutdown); }

void ProcessGroupAule::close(std::chrono::milliseconds longest) {
  if (runtime::in_bad_fork()) return;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  channel_->close(longest);
}

Channel& ProcessGroupAule::channel() {
  runtime::check_not_forked();  // the threads have stayed with the parent, and gloo's: nothing would ever be done
  {
    std::lock_guard lock(mutex_);
    TORCH_CHECK_WITH(DistBackendError, !closed_, "aule process group: it has been destroyed");
  }
  if (const auto failure = channel_->failure()) std::rethrow_exception(failure);
  return *channel_;
}

c10d::Backend& ProcessGroupAule::host() {
  channel();
  return *host_;
}

void ProcessGroupAule::setTimeout(std::chrono::milliseconds timeout) {
  channel_->gloo().setTimeout(timeout);
  host_->setTimeout(timeout);
}

void ProcessGroupAule::setSequenceNumberForGroup() {
  channel_->gloo().setSequenceNumberForGroup();
  host_->setSequenceNumberForGroup();
}

uint64_t ProcessGroupAule::getSequenceNumberForGroup() {
  channel_->drain();
  return channel_->gloo().getSequenceNumberForGroup() + host_->getSequenceNumberForGroup();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::tracked(WorkPtr work) {
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::submit(Call call, c10::Device device) {
  for (const auto* parts : {&call.reads, &call.writes})  // before the other ranks could wait for this one
    for (const Part& part : *parts)
      TORCH_CHECK(part.tensor.device() == device, call.name, ": expected tensors of one device, got ", device, " and ",
                  part.tensor.device());
  Channel& channel = this->channel();
  if (!device.is_cpu()) {
    TORCH_CHECK(!runtime::is_capturing(device.index()), call.name, ": collectives cannot be captured into a graph");
    if (!call.one_peer)
      for (const auto& work : channel.before(call)) work->wait(kNoTimeout);
  }
  auto work = c10::make_intrusive<StagedWork>(channel.shared_from_this(), std::move(call), device, rank_, ++sequence_);
  channel.submit(work);
  return tracked(std::move(work));
}

std::optional<Exchange> ProcessGroupAule::exchange(Exchange::Kind kind, at::Tensor sent, at::Tensor received,
                                                   int64_t bytes, std::chrono::milliseconds timeout, int64_t root,
                                                   const Reduction* reduction) {
  if (place() == Place::host) return std::nullopt;
  Exchange e{.kind = kind,
             .sent = std::move(sent),
             .received = std::move(received),
             .bytes = bytes,
             .root = static_cast<int>(root),
             .timeout = timeout <= kNoTimeout ? getBackendOptions()->timeout : timeout};
  if (reduction != nullptr) {
    e.op = reduction->op;
    e.dtype = reduction->numbers;
  }
  return e;
}

void ProcessGroupAule::startCoalescing() {
  coalescing_ = true;
  coalesced_.clear();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::endCoalescing() {
  coalescing_ = false;
  return c10::make_intrusive<CoalescedWork>(std::exchange(coalesced_, {}), rank_);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::barrier(const c10d::BarrierOptions& opts) {
  // Behind what this thread's stream has recorded, where the barrier is of the device.
  const bool of_host = !opts.device || opts.device->is_cpu();
  const c10::Device device =
      of_host ? c10::Device(at::kCPU)
              : c10::Device(c10::DeviceType::PrivateUse1,
                            opts.device->has_index() ? opts.device->index() : runtime::current_device());
  return submit({.name = "barrier",
                 .type = c10d::OpType::BARRIER,
                 .start =
                     [timeout = opts.timeout](c10d::Backend& gloo) {
                       c10d::BarrierOptions options;
                       options.timeout = timeout;
                       return gloo.barrier(options);
                     }},
                device);
}

void ProcessGroupAule::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  host().monitoredBarrier(opts, wait_all_ranks);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::reduce_all(const char* name, c10d::OpType type, const Tensors& tensors,
                                                            const c10d::ReduceOp& op,
                                                            std::chrono::milliseconds timeout) {
  check_results(name, tensors);
  check_one_dtype(name, tensors);
  const Reduction reduction = reduction_of(name, op, tensors[0].scalar_type(), size_);
  const Layout layout(place(), tensors, 1, reduction.dtype);
  const at::Tensor buffer = reduction.factor ? layout.buffer(1) : layout.buffer(1, tensors);
  Call call{.name = name, .type = type, .outputs = tensors, .factor = reduction.factor, .divisor = reduction.divisor};
  call.reads = call.writes = layout.parts(tensors, buffer);
  call.exchange = exchange(Exchange::Kind::all_reduce, buffer, buffer, layout.block_bytes(), timeout, 0, &reduction);
  if (!call.exchange) call.start = reducing(buffer, reduction, timeout);
  return submit(std::move(call), tensors[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::allreduce, tensors, opts);
  check_one("all_reduce", tensors);
  return reduce_all("all_reduce", c10d::OpType::ALLREDUCE, tensors, opts.reduceOp, opts.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::allreduce_coalesced(Tensors& tensors,
                                                                     const c10d::AllreduceCoalescedOptions& opts) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::allreduce_coalesced, tensors, opts);
  return reduce_all("all_reduce_coalesced", c10d::OpType::ALLREDUCE_COALESCED, tensors, opts.reduceOp, opts.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  if (!on_device(tensors)) return on_host(&c10d::Backend::reduce, tensors, opts);
  check_one("reduce", tensors);
  check_results("reduce", tensors);
  const Reduction reduction = reduction_of("reduce", opts.reduceOp, tensors[0].scalar_type(), size_);
  const Layout layout(place(), tensors, 1, reduction.dtype);
  const at::Tensor buffer = reduction.factor ? layout.buffer(1) : layout.buffer(1, tensors);
  Call call{.name = "reduce",
            .type = c10d::OpType::REDUCE,
            .reads = {layout.part(tensors[0], buffer, 0)},
            .outputs = tensors,
            .factor = reduction.factor,
            .divisor = reduction.divisor};
  if (opts.rootRank == rank_) call.writes = call.reads;
  call.exchange =
      exchange(Exchange::Kind::reduce, buffer, buffer, layout.block_bytes(), opts.timeout, opts.rootRank, &reduction);
  if (!call.exchange)
    call.start = [numbers = buffer.view(reduction.numbers), reduction, opts](c10d::Backend& gloo) -> WorkPtr {
      if (numbers.numel() == 0) return {};
      Tensors one{numbers};
      c10d::ReduceOptions options = opts;
      options.reduceOp = reduction.op;
      return gloo.reduce(one, options);
    };
  return submit(std::move(call), tensors[0].device());
}

// inputs[i]: the summands of outputs[i], whole or one tensor for each rank.
c10::intrusive_ptr<c10d::Work> ProcessGroupAule::scatter_sums(const char* name, c10d::OpType type,
                                                              const Tensors& outputs,
                                                              const std::vector<Tensors>& inputs,
                                                              const c10d::ReduceScatterOptions& opts) {
  check_results(name, outputs);
  check_one_dtype(name, outputs);
  const Reduction reduction = reduction_of(name, opts.reduceOp, outputs[0].scalar_type(), size_);
  const Layout layout(place(), outputs, 1, reduction.dtype);
  const bool same = inputs.size() == 1 && inputs[0].size() == 1 && !reduction.factor;
  const at::Tensor buffer = same ? layout.buffer(size_, inputs[0]) : layout.buffer(size_);
  const at::Tensor sum = place() == Place::host ? buffer.narrow(0, rank_ * layout.block_bytes(), layout.block_bytes())
                                                : layout.buffer(1, outputs);
  Call call{.name = name, .type = type, .outputs = outputs, .factor = reduction.factor, .divisor = reduction.divisor};
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_tensors(name, inputs.at(i));
    const auto pieces = static_cast<int64_t>(inputs[i].size());
    for (int64_t j = 0; j < pieces; ++j) {
      const at::Tensor& input = inputs[i][static_cast<size_t>(j)];
      check_elements(name, input, outputs[i].numel() * (size_ / pieces), outputs[i].scalar_type());
      Part part{input, {}};
      if (!input.is_alias_of(buffer))
        for (int64_t block = j; block < (pieces == 1 ? size_ : j + 1); ++block)
          part.flat.push_back(layout.share(buffer, i, block));
      call.reads.push_back(std::move(part));
    }
    call.writes.push_back(layout.part(outputs[i], sum, i));
  }
  call.exchange =
      exchange(Exchange::Kind::reduce_scatter, buffer, sum, layout.block_bytes(), opts.timeout, 0, &reduction);
  // As gloo's own: a sum of everything, of which each rank takes its share.
  if (!call.exchange) call.start = reducing(buffer, reduction, opts.timeout);
  return submit(std::move(call), outputs[0].device());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                                const c10d::ReduceScatterOptions& opts) {
  if (!on_device(outputs)) return on_host(&c10d::Backend::reduce_scatter, outputs, inputs, opts);
  check_one("reduce_scatter", outputs);
  check_one_list("reduce_scatter", inputs, size_);
  return scatter_sums("reduce_scatter", c10d::OpType::REDUCE_SCATTER, outputs, inputs, opts);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                      const c10d::ReduceScatterOptions& opts) {
  if (!on_device({output})) return on_host(&c10d::Backend::_reduce_scatter_base, output, input, opts);
  return scatter_sums("reduce_scatter_tensor", c10d::OpType::_REDUCE_SCATTER_BASE, {output}, {{input}}, opts);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupAule::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
  if (!on_device(outputs)) return on_host(&c10d::Backend::reduce_scatter_tensor_coalesced, outputs, inputs, opts);
  TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter_tensor_coalesced: expected as many inputs as outputs");
  std::vector<Tensors> summands;
  for (const at::Tensor& t : inputs) summands.push_back({t});
  // Torch 2.11 has no type of its own for it.
  return scatter_sums("reduce_scatter_tensor_coalesced", c10d::OpType::_REDUCE_SCATTER_BASE, outputs, summands, opts);
}

}  // namespace aule::distributed
