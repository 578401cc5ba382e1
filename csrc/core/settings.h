// Lists between commas, as variables of the environment have them.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace aule {

// The parts of a text between commas, without spaces around them and without empty ones.
std::vector<std::string> parts_of(const std::string& text);

// "shape=4,1,32,rows=never": names and values. A part without "=" belongs to the value before it, unless it is a name
// that stands alone, as `alone` tells; where no value is before it, it is a name too. Such names have an empty value.
using Settings = std::vector<std::pair<std::string, std::string>>;
Settings settings_of(const std::string& text, bool (*alone)(const std::string& part) = nullptr);

}  // namespace aule
