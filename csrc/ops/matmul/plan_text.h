// A plan in words, for tests and for people.
#pragma once
#include <string>

#include "ops/matmul/route.h"

namespace aule::ops {

// "coopmat 128x256x64 of 64x64, ...": the kernel, its sizes and constants, and the grid.
std::string text_of(const GemmPlan& plan);

}  // namespace aule::ops
