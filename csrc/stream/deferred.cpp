#include "stream/deferred.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stream/interrupts.h"
#include "stream/stream_impl.h"

namespace aule::stream {

bool StreamImpl::must_defer(const vulkan::Pipeline* pipeline) {
  if (!deferred.empty()) {
    record_deferred(/*wait=*/false);
    while (deferred.size() >= kMostDeferred || deferred_bytes >= kMostDeferredBytes) {
      if (const auto* first = deferred.front().pipeline) first->settle();
      if (const uint64_t late = behind(); late != 0) sleep_until(late);
      record_deferred(/*wait=*/false);
    }
  }
  return !deferred.empty() || (pipeline != nullptr && !pipeline->ready());
}

Deferred& StreamImpl::defer(Deferred::What what) {
  Deferred& later = deferred.emplace_back();
  later.what = what;
  if (tracing()) later.ids = trace_ids();
  return later;
}

void StreamImpl::record_deferred(bool wait) {
  if (deferred.empty()) return;
  struct Restored {
    TraceIds ids = trace_ids();
    ~Restored() { trace_ids() = ids; }
  } restored;
  while (!deferred.empty()) {
    if (d->lost.load(std::memory_order_relaxed)) {
      deferred.clear();
      deferred_bytes = 0;
      break;
    }
    if (const auto* pipeline = deferred.front().pipeline; pipeline != nullptr && pipeline->under_way()) {
      if (!wait) break;
      if (current && current->commands > 0) submit_current();  // the device works meanwhile
      const HostSpan span("aule compile");
      pipeline->settle();
    }
    Deferred next = std::move(deferred.front());
    deferred.pop_front();
    if (next.what == Deferred::What::upload) deferred_bytes -= next.bytes.size();
    trace_ids() = next.ids;
    try {
      record_now(next);
    } catch (...) {
      if (next.what == Deferred::What::upload) {  // no memory for it now: nothing was recorded
        deferred_bytes += next.bytes.size();
        deferred.push_front(std::move(next));
        throw;
      }
      // Later commands go on, because markers and other threads' work may be among it.
      if (!failure) failure = std::current_exception();
    }
    // As after a launch that is not deferred: batches hold memory.
    if (const uint64_t late = behind(); late != 0 && poll() < late) {
      if (!wait) break;
      sleep_until(late);
    }
  }
}

void CommandStream::await_pipelines(uint64_t value) {
  StreamImpl& s = *impl_;
  constexpr std::chrono::milliseconds kSignals(50);  // a wait looks this often whether a signal has come
  std::unique_lock lock(s.mutex);
  while (!s.deferred.empty() && s.submitted < value) {
    s.record_deferred(/*wait=*/false);
    if (s.deferred.empty()) return;
    if (s.current && s.current->commands > 0) s.submit_current();  // the device works meanwhile
    const uint64_t late = s.behind();
    const vulkan::Pipeline* first = s.deferred.front().pipeline;
    const auto held = first == nullptr ? nullptr : first->shared_from_this();
    lock.unlock();
    if (held != nullptr && held->under_way()) {
      const HostSpan span("aule compile");
      if (!held->settle_for(kSignals)) check_interrupts();
    } else if (late != 0) {
      s.wait_until(late);
    }
    lock.lock();
  }
}

void StreamImpl::record_now(const Deferred& next) {
  switch (next.what) {
    case Deferred::What::dispatch: {
      if (!next.pipeline->ready()) next.pipeline->wait();  // which raises why
      if (next.may_write_error) error_record_used.store(true, std::memory_order_relaxed);
      Work work = next.work;
      work.source = next.has_source ? next.source.c_str() : nullptr;
      return dispatch_now(*next.pipeline, next.bytes.data(), next.bytes.size(), next.accesses.data(),
                          next.accesses.size(), next.grid, work);
    }
    case Deferred::What::copy: copy_now(next.dst, next.src, next.size); return submit_if_due();
    case Deferred::What::fill: fill_now(next.dst, next.size, next.word); return submit_if_due();
    case Deferred::What::upload: upload_piece(next.dst, next.bytes.data(), next.bytes.size()); return submit_if_due();
    case Deferred::What::timestamp: return timestamp_now(next.slot);
    case Deferred::What::marker: {
      Batch& b = target();
      b.least_value = std::max(b.least_value, next.value);
      return;
    }
    case Deferred::What::wait: return wait_now(next.timeline, next.value);
    case Deferred::What::begin_label: return begin_label(next.source.c_str());
    case Deferred::What::end_label: return end_label();
  }
}

uint64_t StreamImpl::point() {
  if (deferred.empty()) return pending();
  if (deferred.back().what != Deferred::What::marker) {
    reserved = std::max(reserved, pending()) + kMarkerGap;
    defer(Deferred::What::marker).value = reserved;
  }
  return deferred.back().value;
}

void StreamImpl::raise_failure() {
  if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
}

}  // namespace aule::stream
