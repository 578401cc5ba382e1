// Environment switches.
#pragma once
#include <cstdlib>
#include <cstring>

namespace aule::vulkan {
inline bool environment_flag(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}
}  // namespace aule::vulkan
