// Words that descriptions of plans share.
#pragma once
#include <string>

#include "core/access.h"

namespace aule::ops {

// "grid 12", or "grid 32768x4" of two dimensions.
inline std::string grid_text(const Grid& grid) {
  return "grid " + std::to_string(grid.x) + (grid.y == 1 ? "" : "x" + std::to_string(grid.y));
}

}  // namespace aule::ops
