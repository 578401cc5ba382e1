// Op tags for the device's error record: a kernel that may refuse an index gets {error record address, tag}.
#pragma once
#include <cstdint>

namespace aule::ops {
// Stable small id of an op name (a string literal); the host turns it back into the name when it raises.
uint32_t error_tag(const char* op_name);
const char* error_tag_name(uint32_t tag);
}  // namespace aule::ops
