// How columns are reflected: a pure function of the sizes and of what is known of the device.
#pragma once
#include <cstdint>
#include <string>

#include "core/device_profile.h"
#include "core/dtype.h"

namespace aule::ops {

// One launch of qr_panel.comp.
struct QrPanelPlan {
  uint32_t columns = 1;  // that it takes at once
  uint32_t local = 32, lanes = 8;
  bool in_shared = false;
  uint32_t elems = 1;
};

// For a matrix [rows, columns]: all columns where they fit, else a panel of the first ones.
QrPanelPlan qr_panel_plan(const DeviceProfile& profile, DType dtype, uint64_t rows, uint64_t columns);
// "columns 32 local 256 lanes 8 shared 4096": elements of shared memory, or "in memory".
std::string text_of(const QrPanelPlan& plan);

}  // namespace aule::ops
