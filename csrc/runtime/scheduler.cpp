#include "runtime/scheduler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace aule::runtime {
namespace {

constexpr double kRounding = 1e-9;      // of sums of shares
constexpr size_t kMaxDecisions = 4096;  // half of the log is dropped beyond
constexpr double kNewest = 0.2;         // weight of the newest task in the mean time of execution

bool has_ended(TaskState state) { return state > TaskState::running; }

}  // namespace

TaskScheduler::TaskScheduler(const SchedulerLimits& limits) : limits_(limits) {
  if (limits.max_queued == 0 || limits.max_running == 0 || limits.window_us <= 0)
    throw std::invalid_argument("Scheduler: max_queued, max_running and window must be above 0");
}

bool TaskScheduler::add_context(int64_t id, const ContextLimits& limits) {
  if (id == 0 || contexts_.count(id) != 0) throw std::invalid_argument("Scheduler: the context exists");
  if (limits.base_bytes > limits.max_bytes) throw std::invalid_argument("Scheduler: base_vram is above max_vram");
  if (limits.max_running == 0) throw std::invalid_argument("Scheduler: max_running must be above 0");
  if (!(limits.max_bandwidth > 0 && limits.max_bandwidth <= 1))
    throw std::invalid_argument("Scheduler: a context's bandwidth must be in (0, 1]");
  if (committed_bytes() + limits.base_bytes > limits_.memory_bytes) return false;
  contexts_[id] = {limits};
  return true;
}

void TaskScheduler::remove_context(int64_t id) {
  for (const auto& [task_id, task] : tasks_)
    if (task.request.context == id && !has_ended(task.state))
      throw std::invalid_argument("Scheduler: task " + std::to_string(task_id) + " of the context has not ended");
  contexts_.erase(id);
  reserve_waiting();
}

void TaskScheduler::set_share(int64_t stream, double share, int64_t now_us) {
  if (!(share > 0 && share <= 1)) throw std::invalid_argument("Scheduler: share must be in (0, 1]");
  paces_[stream] = {share, share * static_cast<double>(limits_.window_us), now_us};
}

uint64_t TaskScheduler::committed_bytes() const {
  uint64_t bytes = loose_bytes_;
  for (const auto& [id, context] : contexts_) bytes += std::max(context.limits.base_bytes, context.committed_bytes);
  return bytes;
}

uint64_t TaskScheduler::growth(const Task& task) const {
  if (task.request.context == 0) return task.request.memory_bytes;
  const Context& context = contexts_.at(task.request.context);
  return std::max(context.limits.base_bytes, context.committed_bytes + task.request.memory_bytes) -
         std::max(context.limits.base_bytes, context.committed_bytes);
}

Reason TaskScheduler::impossible(const Task& task) const {
  const double limit = policy(task).memory_overcommit * static_cast<double>(limits_.memory_bytes);
  if (static_cast<double>(task.request.memory_bytes) > limit) return Reason::memory;
  if (task.request.context != 0) {
    const ContextLimits& own = contexts_.at(task.request.context).limits;
    if (task.request.memory_bytes > own.max_bytes) return Reason::memory;
    if (task.request.bandwidth > own.max_bandwidth + kRounding) return Reason::bandwidth;
  }
  return task.request.bandwidth > policy(task).bandwidth + kRounding ? Reason::bandwidth : Reason::none;
}

Reason TaskScheduler::blocked(const Task& task) const {
  if (task.committed) return Reason::none;
  if (task.request.memory_bytes != 0) {
    const double limit = policy(task).memory_overcommit * static_cast<double>(limits_.memory_bytes);
    if (static_cast<double>(committed_bytes() + growth(task)) > limit) return Reason::memory;
  }
  const bool asks = task.request.bandwidth > 0;
  return asks && bandwidth_ + task.request.bandwidth > policy(task).bandwidth + kRounding ? Reason::bandwidth
                                                                                          : Reason::none;
}

Reason TaskScheduler::crowded(const Task& task) const {
  if (task.request.context == 0) return Reason::none;
  const Context& context = contexts_.at(task.request.context);
  if (context.running >= context.limits.max_running) return Reason::slots;
  if (task.committed) return Reason::none;
  if (context.committed_bytes + task.request.memory_bytes > context.limits.max_bytes) return Reason::memory;
  const double bandwidth = context.bandwidth + task.request.bandwidth;
  return task.request.bandwidth > 0 && bandwidth > context.limits.max_bandwidth + kRounding ? Reason::bandwidth
                                                                                            : Reason::none;
}

TaskScheduler::Context* TaskScheduler::context_of(const Task& task) {
  return task.request.context == 0 ? nullptr : &contexts_.at(task.request.context);
}

Reason TaskScheduler::unmet(const Task& task) const {
  for (const int64_t id : task.request.dependencies) {
    const auto found = tasks_.find(id);  // a forgotten one has completed: others keep their dependents from waiting
    if (found != tasks_.end() && found->second.state != TaskState::completed) return Reason::dependencies;
  }
  return Reason::none;
}

void TaskScheduler::commit(Task& task, bool on) {
  if (task.committed == on) return;
  task.committed = on;
  Context* context = context_of(task);
  uint64_t& bytes = context == nullptr ? loose_bytes_ : context->committed_bytes;
  bytes = on ? bytes + task.request.memory_bytes : bytes - task.request.memory_bytes;
  const double by = on ? task.request.bandwidth : -task.request.bandwidth;
  bandwidth_ = std::max(0.0, bandwidth_ + by);
  if (context != nullptr) context->bandwidth = std::max(0.0, context->bandwidth + by);
}

// Memory for which the reserving classes wait becomes theirs in the order of the queue, as soon as it fits.
void TaskScheduler::reserve_waiting() {
  for (const int64_t id : waiting_) {
    Task& task = tasks_.at(id);
    if (!policy(task).reserves || task.committed) continue;
    const Reason own = crowded(task);  // for a slot it waits with its reservation
    if (own == Reason::memory || own == Reason::bandwidth) continue;
    if (blocked(task) != Reason::none) return;
    commit(task, true);
  }
}

int64_t TaskScheduler::estimate(int64_t position) const {
  const auto turns = static_cast<double>(position + static_cast<int64_t>(running_));
  return std::llround(mean_run_us_ * turns / static_cast<double>(limits_.max_running));
}

Decision TaskScheduler::submit(const TaskRequest& request, int64_t now_us) {
  if (request.context != 0 && contexts_.count(request.context) == 0)
    throw std::invalid_argument("Scheduler: there is no such context");
  if (!(request.bandwidth >= 0)) throw std::invalid_argument("Scheduler: bandwidth must be at least 0");
  Task task;
  task.request = request;
  task.submitted_us = now_us;
  task.priority = request.priority.value_or(policy(task).priority);
  ++class_of(task).submitted;
  Decision decision{now_us, ++last_id_, Verdict::reject, impossible(task), 0, 0};
  for (const int64_t id : request.dependencies) {
    const auto found = tasks_.find(id);
    const bool hopeless = found == tasks_.end() || found->second.state == TaskState::failed ||
                          found->second.state == TaskState::cancelled;
    if (hopeless && decision.reason == Reason::none) decision.reason = Reason::dependencies;
  }
  if (decision.reason == Reason::none && waiting_.size() >= limits_.max_queued) decision.reason = Reason::queue_full;
  if (decision.reason != Reason::none) {
    ++class_of(task).rejected;
  } else {
    const auto before = [&](int64_t other) { return tasks_.at(other).priority >= task.priority; };
    const auto place = std::partition_point(waiting_.begin(), waiting_.end(), before);
    const int64_t ahead = place - waiting_.begin();
    decision.reason = unmet(task);
    task.state = decision.reason == Reason::none ? TaskState::queued : TaskState::pending;
    if (decision.reason == Reason::none) decision.reason = blocked(task);
    if (decision.reason == Reason::none) decision.reason = crowded(task);
    if (decision.reason == Reason::none && running_ >= limits_.max_running) decision.reason = Reason::slots;
    if (decision.reason == Reason::none && paced(request.stream, now_us)) decision.reason = Reason::pacing;
    if (decision.reason == Reason::none && ahead > 0) decision.reason = Reason::order;
    decision.verdict = decision.reason == Reason::none ? Verdict::admit : Verdict::queue;
    if (decision.verdict == Verdict::queue) {
      decision.position = ahead + 1;
      decision.estimate_us = estimate(decision.position);
    }
    waiting_.insert(place, decision.task);
    tasks_.emplace(decision.task, std::move(task));
    reserve_waiting();
  }
  if (decisions_.size() == kMaxDecisions)
    decisions_.erase(decisions_.begin(), decisions_.begin() + static_cast<std::ptrdiff_t>(kMaxDecisions / 2));
  decisions_.push_back(decision);
  return decision;
}

bool TaskScheduler::paced(int64_t stream, int64_t now_us) {
  const auto found = paces_.find(stream);
  if (found == paces_.end() || found->second.share >= 1) return false;
  Pace& pace = found->second;
  const double most = pace.share * static_cast<double>(limits_.window_us);
  pace.credit_us = std::min(most, pace.credit_us + pace.share * static_cast<double>(now_us - pace.at_us));
  pace.at_us = now_us;
  return pace.credit_us <= 0;
}

std::optional<int64_t> TaskScheduler::next(int64_t now_us) {
  if (running_ >= limits_.max_running) return std::nullopt;
  std::vector<int64_t> full;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    Task& task = tasks_.at(*at);
    if (unmet(task) != Reason::none) continue;
    task.state = TaskState::queued;
    // Later ones do not overtake one that has to wait for memory, or a large task would wait for ever behind small
    // ones. Nor do those of its context, where that is what lacks room.
    const bool behind = std::find(full.begin(), full.end(), task.request.context) != full.end();
    if (behind) continue;
    if (crowded(task) != Reason::none) {
      full.push_back(task.request.context);
      continue;
    }
    if (paced(task.request.stream, now_us)) continue;
    if (blocked(task) != Reason::none) return std::nullopt;
    const int64_t id = *at;
    waiting_.erase(at);
    start(task, now_us);
    return id;
  }
  return std::nullopt;
}

void TaskScheduler::start(Task& task, int64_t now_us) {
  commit(task, true);
  task.state = TaskState::running;
  task.started_us = now_us;
  class_of(task).wait_us += now_us - task.submitted_us;
  ++running_;
  if (Context* context = context_of(task)) ++context->running;
  if (const auto pace = paces_.find(task.request.stream); pace != paces_.end()) {
    task.charged_us = task.request.device_us > 0 ? static_cast<double>(task.request.device_us) : pace->second.mean_us;
    pace->second.credit_us -= task.charged_us;
  }
}

void TaskScheduler::end(int64_t id, TaskState state, int64_t now_us) {
  std::vector<int64_t> ending{id};
  while (!ending.empty()) {
    const int64_t ended = ending.back();
    ending.pop_back();
    Task& task = tasks_.at(ended);
    if (has_ended(task.state)) continue;
    if (task.state == TaskState::running) {
      --running_;
      if (Context* context = context_of(task)) --context->running;
    } else {
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ended));
    }
    task.state = ended == id ? state : TaskState::cancelled;
    task.ended_us = now_us;
    commit(task, false);
    ClassStats& sums = class_of(task);
    ++(task.state == TaskState::completed ? sums.completed
       : task.state == TaskState::failed  ? sums.failed
                                          : sums.cancelled);
    if (task.state == TaskState::completed) continue;
    for (const int64_t other : waiting_) {  // what waits for it will never run
      const auto& needs = tasks_.at(other).request.dependencies;
      if (std::find(needs.begin(), needs.end(), ended) != needs.end()) ending.push_back(other);
    }
  }
  reserve_waiting();
}

void TaskScheduler::finish(int64_t id, bool failed, int64_t device_us, int64_t now_us) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.state != TaskState::running)
    throw std::invalid_argument("Scheduler: task " + std::to_string(id) + " does not run");
  Task& task = found->second;
  task.device_us = device_us;
  class_of(task).device_us += device_us;
  const auto run_us = static_cast<double>(now_us - task.started_us);
  mean_run_us_ = mean_run_us_ == 0 ? run_us : (1 - kNewest) * mean_run_us_ + kNewest * run_us;
  paced(task.request.stream, now_us);
  if (const auto found_pace = paces_.find(task.request.stream); found_pace != paces_.end()) {
    Pace& pace = found_pace->second;
    const auto took = static_cast<double>(device_us);
    pace.credit_us += task.charged_us - took;
    pace.mean_us = pace.mean_us == 0 ? took : (1 - kNewest) * pace.mean_us + kNewest * took;
  }
  end(id, failed ? TaskState::failed : TaskState::completed, now_us);
}

bool TaskScheduler::cancel(int64_t id, int64_t now_us) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.state >= TaskState::running) return false;
  end(id, TaskState::cancelled, now_us);
  return true;
}

void TaskScheduler::forget(int64_t id) {
  const auto found = tasks_.find(id);
  if (found != tasks_.end() && has_ended(found->second.state)) tasks_.erase(found);
}

TaskStats TaskScheduler::stats(int64_t id, int64_t now_us) const {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) throw std::out_of_range("Scheduler: there is no task " + std::to_string(id));
  const Task& task = found->second;
  TaskStats stats{task.state, task.priority, 0, 0, task.device_us, &task.request};
  const bool started =  // only what waits is cancelled, and only what ran fails
      task.state == TaskState::running || task.state == TaskState::completed || task.state == TaskState::failed;
  const int64_t until = has_ended(task.state) ? task.ended_us : now_us;
  stats.wait_us = (started ? task.started_us : until) - task.submitted_us;
  stats.run_us = started ? until - task.started_us : 0;
  return stats;
}

}  // namespace aule::runtime
