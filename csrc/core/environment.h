// Environment switches.
#pragma once
#include <cstdlib>
#include <cstring>
#include <filesystem>

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
// Where this package keeps what it may lose; empty: nowhere.
inline std::filesystem::path cache_directory() {
  if (const char* dir = std::getenv("TORCH_AULE_CACHE_DIR"); dir != nullptr && *dir != '\0') return dir;
#ifdef _WIN32
  if (const char* local = std::getenv("LOCALAPPDATA")) return std::filesystem::path(local) / "torch_aule";
#endif
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
    return std::filesystem::path(xdg) / "torch_aule";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "torch_aule";
  return {};
}
}  // namespace aule::vulkan
