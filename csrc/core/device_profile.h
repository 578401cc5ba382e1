// All that is known of a device, made once for each: its capabilities and limits, the architecture, how many
// multiprocessors it has, and what was measured on it. Planners get it as a value and ask no device.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/caps.h"

namespace aule {

// Tables of measured facts are keyed by it. `nvidia`, `amd` and `intel` are parts of that vendor that are not listed.
enum class Architecture : uint8_t {
  unknown,
  lavapipe,
  swiftshader,
  turing,
  ampere,
  ada,
  hopper,
  blackwell,
  nvidia,
  gcn,
  rdna1,
  rdna2,
  rdna3,
  rdna4,
  cdna1,
  cdna2,
  cdna3,
  cdna4,
  amd,
  arc,
  intel,
  apple,
  adreno,
  mali,
};
const char* architecture_name(Architecture architecture);
Architecture architecture_named(const std::string& name);  // unknown, if there is no such name

enum class Vendor : uint8_t { other, nvidia, amd, intel };
Vendor vendor_of(Architecture architecture);

// A line of the file of measured shapes (torch_aule.tune): a pass, and what its table's row has.
struct MeasuredShape {
  std::string pass;
  std::vector<int> numbers;
};

struct DeviceProfile : Caps {
  Architecture architecture = Architecture::unknown;
  uint32_t multiprocessors = 0;  // units that hold workgroups; never 0 in a profile that make_profile made
  bool multiprocessors_guessed = false;
  std::vector<MeasuredShape> measured_shapes;

  Vendor vendor() const { return vendor_of(architecture); }
};

// `multiprocessors` is 0 where no extension tells.
DeviceProfile make_profile(Caps caps, uint32_t multiprocessors);
Architecture architecture_of(const Caps& caps);

// Files in the cache folder that belong to this device and driver.
std::string pipeline_file_name(const Caps& caps);
std::string measured_shapes_file_name(const Caps& caps);

// Lines "pass number number ..."; what does not begin so is passed over. No such file: no lines.
std::vector<MeasuredShape> read_measured_shapes(const std::string& path);

}  // namespace aule
