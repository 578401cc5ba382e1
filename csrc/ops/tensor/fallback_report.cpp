#include "ops/tensor/fallback_report.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <map>
#include <mutex>

#include "core/environment.h"

namespace aule::ops {
namespace {

std::atomic<bool>& strict_flag() {
  static std::atomic<bool> flag = strict_from_environment();
  return flag;
}

struct Report {
  std::mutex mutex;
  std::map<std::string, FallbackRow> rows;
};
Report& report() {
  static auto* r = new Report;
  return *r;
}

void check_not_strict(const std::string& name, const std::string& arguments) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_strict(), "aule: operator ", name, " has no kernel on device aule and strict mode refuses the CPU (",
      arguments, "). Unset TORCH_AULE_STRICT, or call torch.aule.set_strict(False), to allow the fallback.");
}

}  // namespace

bool strict_from_environment() { return environment().strict; }
bool is_strict() { return strict_flag().load(std::memory_order_relaxed); }
void set_strict(bool strict) { strict_flag() = strict; }

void allow_host(const std::string& name, c10::function_ref<std::string()> arguments) {
  if (is_strict()) check_not_strict(name, arguments());
  bool first = false;
  std::string first_arguments;
  {
    std::lock_guard lock(report().mutex);
    auto [it, inserted] = report().rows.try_emplace(name, FallbackRow{name, 0, {}});
    if (inserted) it->second.first_arguments = arguments();
    first = it->second.count++ == 0;
    first_arguments = it->second.first_arguments;
  }
  if (first) {
    TORCH_WARN("aule: operator ", name, " has no kernel on device aule for (", first_arguments,
               ") and runs on the CPU. Counted in torch.aule.fallback_report(); TORCH_AULE_STRICT=1 makes this an "
               "error.");
  }
}

std::vector<FallbackRow> fallback_report() {
  std::lock_guard lock(report().mutex);
  std::vector<FallbackRow> rows;
  for (const auto& [name, row] : report().rows) rows.push_back(row);
  return rows;
}
void reset_fallback_report() {
  std::lock_guard lock(report().mutex);
  report().rows.clear();
}

}  // namespace aule::ops
