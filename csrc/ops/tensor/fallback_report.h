// Work that runs on the host in place of a kernel. It is counted, warned about once per operator, and an error in
// strict mode.
#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>
#include <vector>

namespace aule::ops {

// Called before work of `name` runs on the host. Throws in strict mode. `arguments` describes the arguments and is
// called once per operator.
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
bool strict_from_environment();  // the value of TORCH_AULE_STRICT

}  // namespace aule::ops
