// How many of a device's units hold workgroups: for kernels whose workgroups stay and loop.
#pragma once
#include <cstdint>

namespace aule {

uint32_t multiprocessors(int device);  // a guess where no extension tells

}  // namespace aule
