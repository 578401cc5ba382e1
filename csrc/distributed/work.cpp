#include "distributed/work.h"

#include <ATen/core/jit_type.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "distributed/channel.h"
#include "runtime/streams.h"
#include "stream/interrupts.h"

namespace aule::distributed {
namespace {

constexpr auto kLookForSignals = std::chrono::milliseconds(50);

std::vector<at::Tensor> tensors_of(const std::vector<Part>& parts) {
  std::vector<at::Tensor> tensors;
  for (const Part& part : parts) tensors.push_back(part.tensor);
  return tensors;
}

}  // namespace

StagedWork::StagedWork(std::shared_ptr<Channel> channel, Call call, c10::Device device, int rank, uint64_t sequence)
    : c10d::Work(rank, call.type, call.name, tensors_of(call.reads)),
      channel_(std::move(channel)),
      call_(std::move(call)),
      device_(device),
      sequence_(sequence),
      who_(channel_->who()),
      called_(device.type()),
      copied_in_(device.type()),
      copied_back_(device.type()) {
  if (call_.exchange)
    called_.record(runtime::current_c10_stream(device_.index()));
  else if (on_device())
    copy_in();
}

bool StagedWork::results_in(const std::vector<Part>& parts) const {
  for (const Part& part : parts)
    for (const at::Tensor& output : call_.outputs)
      if (part.tensor.is_alias_of(output)) return true;
  return false;
}

void StagedWork::copy_in() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  called_.record(runtime::current_c10_stream(device_.index()));
  const c10::StreamGuard guard(channel_->stream(device_.index(), Channel::Direction::to_host));
  called_.block(guard.current_stream());
  for (const Part& part : call_.reads) part.tensor.record_stream(guard.current_stream());
  if (call_.factor && call_.factor->tensor.defined()) call_.factor->tensor.record_stream(guard.current_stream());
  for (const Part& part : call_.reads) pack(part, call_.factor);
  copied_in_.record(guard.current_stream());
}

void StagedWork::start(c10d::Backend& gloo) noexcept {
  if (call_.exchange) return;
  try {
    // A receive may begin before the caller's stream is here; only its copy back waits for that.
    if (on_device() && !(call_.one_peer && call_.reads.empty())) copied_in_.synchronize();
    auto inner = call_.start(gloo);
    std::lock_guard lock(mutex_);
    inner_ = std::move(inner);
  } catch (...) {
    end(described(std::current_exception()));
  }
}

void StagedWork::complete() noexcept {
  std::exception_ptr error;
  c10::intrusive_ptr<c10d::Work> inner;
  bool ended = false;
  {
    std::lock_guard lock(mutex_);
    inner = inner_;
    ended = completed_;
  }
  if (!ended) {
    try {
      if (call_.exchange) run_exchange();
      TORCH_CHECK_WITH(DistBackendError, !inner || inner->wait(), "it was aborted");
    } catch (...) {
      error = described(std::current_exception());
      if (!call_.one_peer) channel_->failed(error);
    }
  }
  const auto running = until_exit();
  if (!ended) {
    try {
      if (!error && on_device() && !call_.exchange) copy_back();
    } catch (...) {
      error = described(std::current_exception());
    }
    end(error);
  }
  release();
}

void StagedWork::copy_back() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::StreamGuard guard(channel_->stream(device_.index(), Channel::Direction::from_host));
  called_.block(guard.current_stream());  // the caller may have read or written the tensors before
  for (const Part& part : call_.writes) {
    part.tensor.record_stream(guard.current_stream());
    unpack(part, call_.divisor);
  }
  copied_back_.record(guard.current_stream());
  back_ = guard.current_stream();
}

void StagedWork::run_exchange() {
  if (const auto failure = channel_->failure()) std::rethrow_exception(failure);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::Stream stream = runtime::collective_stream(device_.index());
  Exchange& exchange = *call_.exchange;
  const c10::StreamGuard guard(stream);
  called_.block(stream);
  for (const auto* parts : {&call_.reads, &call_.writes})
    for (const Part& part : *parts) part.tensor.record_stream(stream);
  for (const at::Tensor& buffer : {exchange.sent, exchange.received})
    if (buffer.defined()) buffer.record_stream(stream);
  for (const Part& part : call_.reads) pack(part, call_.factor);
  const bool copied =
      std::any_of(call_.reads.begin(), call_.reads.end(), [](const Part& p) { return !p.flat.empty(); });
  if (!copied && !call_.factor) exchange.ready = &called_;
  channel_->shared()->run(exchange, stream);
  exchange.ready = nullptr;
  for (const Part& part : call_.writes) unpack(part, call_.divisor);
  copied_back_.record(stream);
  back_ = stream;
}

void StagedWork::fail(const std::string& reason) noexcept {
  try {
    C10_THROW_ERROR(DistBackendError, reason);
  } catch (...) {
    end(described(std::current_exception()));
  }
}

void StagedWork::end(std::exception_ptr error) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (completed_) return;
    completed_ = true;
    exception_ = error;
    if (future_ && !future_marked_) {
      future_marked_ = true;
      channel_->call_back(
          [self = c10::intrusive_ptr<StagedWork>::unsafe_reclaim_from_nonowning(this)] { self->mark_future(); });
    }
  }
  cv_.notify_all();
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
}

void StagedWork::release() noexcept {
  std::shared_ptr<Channel> channel;
  std::lock_guard lock(mutex_);
  call_.reads.clear();  // blocks of memory wait for the copies by themselves
  call_.writes.clear();
  call_.start = nullptr;
  if (call_.exchange) {
    call_.exchange->sent.reset();
    call_.exchange->received.reset();
  }
  channel = std::move(channel_);
}

void StagedWork::mark_future() {
  if (exception_) return future_->setError(exception_);
  const c10::OptionalStreamGuard guard(back_);  // on which the future records its events
  future_->markCompleted(c10::IValue(call_.outputs));
}

c10::intrusive_ptr<c10::ivalue::Future> StagedWork::getFuture() {
  std::unique_lock lock(mutex_);
  if (!future_) {
    std::vector<c10::Device> devices;
    if (on_device()) devices.push_back(device_);
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
    if (completed_) {
      future_marked_ = true;
      lock.unlock();
      mark_future();
    }
  }
  return future_;
}

bool StagedWork::wait(std::chrono::milliseconds timeout) {
  if (call_.exchange && timeout == kNoTimeout && !has_ended()) {
    const c10::Stream stream = runtime::current_c10_stream(device_.index());
    const auto self = c10::intrusive_ptr<StagedWork>::unsafe_reclaim_from_nonowning(this);
    const auto arrive = [self, stream] {
      self->wait_for_end(kNoTimeout);
      self->copied_back_.block(stream);
    };
    if (runtime::wait_later(stream, [self] { return self->has_ended(); }, arrive)) return true;
  }
  wait_for_end(timeout);
  synchronize();
  return true;
}

bool StagedWork::has_ended() {
  std::lock_guard lock(mutex_);
  return completed_;
}

void StagedWork::wait_for_end(std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!completed_) {
    cv_.wait_for(lock, kLookForSignals);
    if (completed_) break;
    lock.unlock();
    stream::check_interrupts();
    if (timeout != kNoTimeout && std::chrono::steady_clock::now() - begin >= timeout) {
      C10_THROW_ERROR(DistBackendError, c10::str("aule process group: ", who_, ": ", call_.name,
                                                 " was not done within ", timeout.count(), " ms"));
    }
    lock.lock();
  }
  if (exception_) std::rethrow_exception(exception_);
}

bool StagedWork::isCompleted() {
  std::lock_guard lock(mutex_);
  return completed_ && (exception_ || !on_device() || copied_back_.query());
}

bool StagedWork::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

void StagedWork::synchronize() {
  if (on_device()) copied_back_.block(runtime::current_c10_stream(device_.index()));
}

void StagedWork::abort() {
  std::unique_lock lock(mutex_);
  const auto inner = call_.one_peer ? inner_ : nullptr;  // gloo ends only these
  lock.unlock();
  if (inner) inner->abort();
}

int StagedWork::sourceRank() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(inner_ && completed_, "sourceRank: the receive is not complete");
  return inner_->sourceRank();
}

std::vector<at::Tensor> StagedWork::result() { return call_.outputs; }

std::exception_ptr StagedWork::described(std::exception_ptr error) const {
  std::string text = "unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    text = e.what_without_backtrace();
  } catch (const std::exception& e) {
    text = e.what();
  } catch (...) {
  }
  try {
    C10_THROW_ERROR(DistBackendError, c10::str("aule process group: ", who_, ": ", call_.name, " failed: ", text));
  } catch (...) {
    return std::current_exception();
  }
}

CoalescedWork::CoalescedWork(std::vector<c10::intrusive_ptr<c10d::Work>> works, int rank)
    : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

bool CoalescedWork::isCompleted() {
  for (const auto& work : works_)
    if (!work->isCompleted()) return false;
  return true;
}

bool CoalescedWork::isSuccess() const {
  for (const auto& work : works_)
    if (!work->isSuccess()) return false;
  return true;
}

void CoalescedWork::synchronize() {
  for (const auto& work : works_) work->synchronize();
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> tensors;
  for (const auto& work : works_)
    for (const at::Tensor& t : work->result()) tensors.push_back(t);
  return tensors;
}

}  // namespace aule::distributed
