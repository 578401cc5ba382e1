// Op tags for the device's error record. A kernel that checks indices gets {error record address, tag}.
#pragma once
#include <cstdint>
#include <string>

namespace aule::ops {
// Small id of an op name (a string literal). The host translates it back when it throws.
uint32_t error_tag(const char* op_name);
// The same for a name that is made at run time; it is kept.
uint32_t lasting_error_tag(const std::string& name);
const char* error_tag_name(uint32_t tag);
}  // namespace aule::ops
