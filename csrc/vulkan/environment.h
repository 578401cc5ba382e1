// Environment switches.
#pragma once
#include <cstdlib>
#include <cstring>

namespace aule::vulkan {
inline bool environment_flag(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}
inline double environment_number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  return end == text ? otherwise : number;
}
}  // namespace aule::vulkan
