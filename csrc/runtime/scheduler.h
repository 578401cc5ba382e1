// Turns of tasks on a device: admission, classes of service, quotas of contexts, pacing of streams.
//
// Nothing here knows a device or reads a clock: each call is told the time, so that a simulated run and a real one are
// the same code. The owner runs the tasks that `next` names and reports how they ended. Not locked: one owner.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace aule::runtime {

enum class TaskState : uint8_t { pending, queued, running, completed, failed, cancelled };
inline constexpr const char* kTaskStates[] = {"PENDING", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"};

enum class QosClass : uint8_t { guaranteed, burstable, best_effort };
struct QosPolicy {
  const char* name;
  int priority;
  double memory_overcommit;  // its tasks may bring the estimates to this multiple of the memory
  double bandwidth;          // and the shares of bandwidth to this sum
  bool reserves;             // from submission, not from the start
};
inline constexpr QosPolicy kQosPolicies[] = {
    {"guaranteed", 100, 1.0, 1.0, true}, {"burstable", 50, 1.5, 0.8, true}, {"best_effort", 0, 2.0, 0.5, false}};

enum class Verdict : uint8_t { admit, queue, reject };
inline constexpr const char* kVerdicts[] = {"admit", "queue", "reject"};
enum class Reason : uint8_t { none, memory, bandwidth, queue_full, dependencies, order, slots, pacing };
inline constexpr const char* kReasons[] = {"",      "memory", "bandwidth", "queue_full", "dependencies",
                                           "order", "slots",  "pacing"};

struct SchedulerLimits {
  uint64_t memory_bytes;
  uint64_t max_queued, max_running;
  int64_t window_us;
};

struct TaskRequest {
  QosClass qos = QosClass::best_effort;
  std::optional<int> priority;  // of the class, if not given
  uint64_t memory_bytes = 0;
  double bandwidth = 0;  // share of the device's, 0 to 1
  std::vector<int64_t> dependencies;
  int64_t context = 0;    // 0: none
  int64_t stream = 0;     // that pacing counts it for
  int64_t device_us = 0;  // as an estimate; 0: as the stream's last ones took
};

struct ContextLimits {
  uint64_t max_bytes, base_bytes;
  uint64_t max_running = UINT64_MAX;  // of its tasks at the same time
  double max_bandwidth = 1;           // sum of its tasks' shares
};

struct Decision {
  int64_t time_us, task;
  Verdict verdict;
  Reason reason;
  int64_t position;     // in the queue, from 1; 0: not queued
  int64_t estimate_us;  // of the wait
};

struct TaskStats {
  TaskState state;
  int priority;
  int64_t wait_us, run_us, device_us;
  const TaskRequest* request;  // valid until the scheduler's next change
};

struct ClassStats {
  uint64_t submitted = 0, completed = 0, failed = 0, cancelled = 0, rejected = 0;
  int64_t wait_us = 0, device_us = 0;
};

class TaskScheduler {
 public:
  explicit TaskScheduler(const SchedulerLimits& limits);

  // A context: its tasks' estimates stay below `max_bytes`; `base_bytes` are its own from now on. False: no room.
  bool add_context(int64_t id, const ContextLimits& limits);
  void remove_context(int64_t id);
  // At most `share` of the device's time, over windows: what is not used is kept for one window, what was used in
  // excess is waited for. A task is charged its estimate when it starts, and what it took when it ends. 1: as much as
  // there is.
  void set_share(int64_t stream, double share, int64_t now_us);

  Decision submit(const TaskRequest& request, int64_t now_us);  // its task's id is valid if it was not rejected
  std::optional<int64_t> next(int64_t now_us);                  // that task is RUNNING now
  void finish(int64_t task, bool failed, int64_t device_us, int64_t now_us);
  bool cancel(int64_t task, int64_t now_us);  // not once it runs

  TaskStats stats(int64_t task, int64_t now_us) const;
  const ClassStats& stats(QosClass qos) const { return classes_[static_cast<size_t>(qos)]; }
  uint64_t waiting() const { return waiting_.size(); }
  uint64_t running() const { return running_; }
  uint64_t committed_bytes() const;
  double committed_bandwidth() const { return bandwidth_; }
  const std::vector<Decision>& decisions() const { return decisions_; }
  // Frees what is kept of tasks that ended, for those whose stats nobody asks for again.
  void forget(int64_t task);

 private:
  struct Task {
    TaskRequest request;
    int priority;
    TaskState state = TaskState::pending;
    bool committed = false;  // its memory and bandwidth
    double charged_us = 0;   // to its stream's pace, before it ends
    int64_t submitted_us = 0, started_us = 0, ended_us = 0, device_us = 0;
  };
  struct Context {
    ContextLimits limits;
    uint64_t committed_bytes = 0, running = 0;
    double bandwidth = 0;
  };
  struct Pace {
    double share;
    double credit_us;
    int64_t at_us;
    double mean_us = 0;  // of its tasks
  };
  const QosPolicy& policy(const Task& task) const { return kQosPolicies[static_cast<size_t>(task.request.qos)]; }
  ClassStats& class_of(const Task& task) { return classes_[static_cast<size_t>(task.request.qos)]; }
  uint64_t growth(const Task& task) const;  // of the committed bytes, were it committed
  Reason impossible(const Task& task) const;
  Reason blocked(const Task& task) const;  // why its estimates do not fit now
  Reason crowded(const Task& task) const;  // the same of its context, where other contexts' tasks may fit
  Reason unmet(const Task& task) const;
  bool paced(int64_t stream, int64_t now_us);
  void start(Task& task, int64_t now_us);
  void commit(Task& task, bool on);
  void reserve_waiting();
  Context* context_of(const Task& task);
  void end(int64_t id, TaskState state, int64_t now_us);
  int64_t estimate(int64_t position) const;

  SchedulerLimits limits_;
  std::map<int64_t, Task> tasks_;
  std::vector<int64_t> waiting_;  // by priority, then by age
  std::map<int64_t, Context> contexts_;
  std::map<int64_t, Pace> paces_;
  std::vector<Decision> decisions_;
  ClassStats classes_[3];
  uint64_t running_ = 0, loose_bytes_ = 0;  // committed by tasks of no context
  double bandwidth_ = 0;
  double mean_run_us_ = 0;
  int64_t last_id_ = 0;
};

}  // namespace aule::runtime
