// What a kernel's error record means (layout: shaders/common/errors.glsl).
#pragma once
#include <cstdint>

namespace aule::stream {
// Installed by the op layer, which knows the names behind the tags that kernels report.
void set_error_tag_names(const char* (*name_of)(uint32_t tag));
}  // namespace aule::stream
