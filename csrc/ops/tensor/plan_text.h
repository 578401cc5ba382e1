// Words that the texts of plans share.
#pragma once
#include <string>

#include "core/access.h"

namespace aule::ops {

// "grid 12", or "grid 32768x4" of two dimensions, "grid 8x1x3" of three, "grid 32768x4+5" with a shorter last row.
inline std::string grid_text(const Grid& grid) {
  std::string text = "grid " + std::to_string(grid.x);
  if (grid.y != 1 || grid.z != 1) text += "x" + std::to_string(grid.y);
  if (grid.z != 1) text += "x" + std::to_string(grid.z);
  return grid.tail == 0 ? text : text + "+" + std::to_string(grid.tail);
}

}  // namespace aule::ops
