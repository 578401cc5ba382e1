#include "ops/tensor/device_assert.h"

#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "kernels/launch.h"

namespace aule::ops {
namespace {
struct Tags {
  std::mutex mutex;
  std::vector<const char*> names{"a kernel"};
};
Tags& tags() {
  static auto* t = new Tags;
  return *t;
}
}  // namespace

uint32_t error_tag(const char* op_name) {
  auto& t = tags();
  std::lock_guard lock(t.mutex);
  for (size_t i = 0; i < t.names.size(); ++i)
    if (t.names[i] == op_name || std::strcmp(t.names[i], op_name) == 0) return static_cast<uint32_t>(i);
  t.names.push_back(op_name);
  set_error_tag_names(&error_tag_name);
  return static_cast<uint32_t>(t.names.size() - 1);
}

uint32_t lasting_error_tag(const std::string& name) {
  static std::mutex mutex;
  static auto* kept = new std::set<std::string>;  // its elements stay where they are
  std::lock_guard lock(mutex);
  return error_tag(kept->insert(name).first->c_str());
}

const char* error_tag_name(uint32_t tag) {
  auto& t = tags();
  std::lock_guard lock(t.mutex);
  return tag < t.names.size() ? t.names[tag] : t.names[0];
}

}  // namespace aule::ops
