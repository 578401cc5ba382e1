#include "core/settings.h"

#include <algorithm>

namespace aule {

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const size_t first = text.find_first_not_of(' ', at), last = text.find_last_not_of(' ', comma - 1);
    if (first < comma) parts.push_back(text.substr(first, last - first + 1));
    at = comma + 1;
  }
  return parts;
}

Settings settings_of(const std::string& text, bool (*alone)(const std::string& part)) {
  Settings settings;
  for (const std::string& part : parts_of(text)) {
    const size_t equals = part.find('=');
    if (equals != std::string::npos)
      settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    else if (settings.empty() || (alone != nullptr && alone(part)))
      settings.emplace_back(part, "");
    else
      settings.back().second += ',' + part;
  }
  return settings;
}

}  // namespace aule
