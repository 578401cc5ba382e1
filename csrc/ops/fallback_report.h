// What runs on the host in place of a kernel: counted, warned of once per operator, refused in strict mode.
#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>
#include <vector>

namespace aule::ops {

// Work of `name` is about to run on the host. Strict mode refuses it; `arguments` describes them, and is asked once an
// operator.
void allow_host(const std::string& name, c10::function_ref<std::string()> arguments);

struct FallbackRow {
  std::string op;
  int64_t count;
  std::string first_arguments;  // shapes and dtypes of the first call
};
std::vector<FallbackRow> fallback_report();
void reset_fallback_report();
bool is_strict();
void set_strict(bool strict);
bool strict_from_environment();  // what TORCH_AULE_STRICT says

}  // namespace aule::ops
