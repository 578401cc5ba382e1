#include "core/device_profile.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <utility>

namespace aule {
namespace {

constexpr uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086, kQualcomm = 0x5143, kArm = 0x13b5;
constexpr uint32_t kGuessedMultiprocessors = 64;

// Indexed by Architecture.
constexpr std::string_view kNames[] = {"unknown", "lavapipe",  "swiftshader", "turing", "ampere", "ada",
                                       "hopper",  "blackwell", "nvidia",      "gcn",    "rdna1",  "rdna2",
                                       "rdna3",   "rdna4",     "cdna1",       "cdna2",  "cdna3",  "cdna4",
                                       "amd",     "arc",       "intel",       "apple",  "adreno", "mali"};
static_assert(std::size(kNames) == static_cast<size_t>(Architecture::mali) + 1);

bool has_word(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return text.find(w) != std::string::npos; });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// By the chip, which the PCI id's upper byte tells.
Architecture nvidia_architecture(uint32_t device_id) {
  const uint32_t chip = device_id >> 8;
  if (chip == 0x1e || chip == 0x1f || chip == 0x21) return Architecture::turing;
  if (chip == 0x20 || chip == 0x22 || chip == 0x24 || chip == 0x25) return Architecture::ampere;
  if (chip == 0x23) return Architecture::hopper;
  if (chip >= 0x26 && chip <= 0x28) return Architecture::ada;
  if (chip >= 0x29 && chip <= 0x32) return Architecture::blackwell;
  return Architecture::nvidia;
}

// By the names that RADV writes in brackets, and by those of products.
Architecture amd_architecture(const std::string& name) {
  if (has_word(name, {"gfx950", "mi350", "mi355"})) return Architecture::cdna4;
  if (has_word(name, {"gfx94", "mi300", "mi308", "mi325"})) return Architecture::cdna3;
  if (has_word(name, {"gfx90a", "mi200", "mi210", "mi250"})) return Architecture::cdna2;
  if (has_word(name, {"gfx908", "mi100"})) return Architecture::cdna1;
  if (has_word(name, {"gfx12", "navi4", "rx 90"})) return Architecture::rdna4;
  if (has_word(name, {"gfx11", "navi3", "phoenix", "hawk_point", "strix", "krackan", "rx 7", "pro w7"}))
    return Architecture::rdna3;
  if (has_word(name, {"gfx103", "navi2", "vangogh", "rembrandt", "raphael", "mendocino", "rx 6", "pro w6"}))
    return Architecture::rdna2;
  if (has_word(name, {"gfx101", "navi1", "rx 57", "rx 56", "rx 55"})) return Architecture::rdna1;
  if (has_word(name, {"gfx9", "gfx8", "gfx7", "gfx6", "vega", "raven", "renoir", "polaris", "fiji", "tonga", "hawaii",
                      "bonaire", "tahiti", "pitcairn", "rx 4", "rx 58"}))
    return Architecture::gcn;
  return Architecture::amd;
}

}  // namespace

const char* architecture_name(Architecture architecture) { return kNames[static_cast<size_t>(architecture)].data(); }

Architecture architecture_named(const std::string& name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  return found == std::end(kNames) ? Architecture::unknown : static_cast<Architecture>(found - std::begin(kNames));
}

Vendor vendor_of(Architecture architecture) {
  if (architecture >= Architecture::turing && architecture <= Architecture::nvidia) return Vendor::nvidia;
  if (architecture >= Architecture::gcn && architecture <= Architecture::amd) return Vendor::amd;
  if (architecture == Architecture::arc || architecture == Architecture::intel) return Vendor::intel;
  return Vendor::other;
}

Architecture architecture_of(const Caps& caps) {
  const std::string name = lower(caps.name);
  if (has_word(name, {"llvmpipe"})) return Architecture::lavapipe;
  if (has_word(name, {"swiftshader"})) return Architecture::swiftshader;
  if (caps.vendor_id == kNvidia) return nvidia_architecture(caps.device_id);
  if (caps.vendor_id == kAmd) return amd_architecture(name);
  if (caps.vendor_id == kIntel) {  // parts with matrix units have the same cores as Arc
    const bool arc = caps.cooperative_matrix || has_word(name, {"arc", "dg2", "bmg", "lnl"});
    return arc ? Architecture::arc : Architecture::intel;
  }
  if (has_word(name, {"apple"})) return Architecture::apple;
  if (caps.vendor_id == kQualcomm || has_word(name, {"adreno"})) return Architecture::adreno;
  if (caps.vendor_id == kArm || has_word(name, {"mali"})) return Architecture::mali;
  return Architecture::unknown;
}

DeviceProfile make_profile(Caps caps, uint32_t multiprocessors) {
  DeviceProfile profile;
  static_cast<Caps&>(profile) = std::move(caps);
  profile.architecture = architecture_of(profile);
  profile.multiprocessors_guessed = multiprocessors == 0;
  profile.multiprocessors = multiprocessors == 0 ? kGuessedMultiprocessors : multiprocessors;
  return profile;
}

std::string pipeline_file_name(const Caps& caps) {
  char ids[64];
  std::snprintf(ids, sizeof ids, "%08x-%08x-%08x-", caps.vendor_id, caps.device_id, caps.driver_version);
  return std::string("pipelines-") + ids + caps.uuid + ".bin";
}

std::string measured_shapes_file_name(const Caps& caps) {
  return "attention-" + std::to_string(caps.driver_version) + "-" + caps.uuid + ".txt";
}

std::vector<MeasuredShape> read_measured_shapes(const std::string& path) {
  std::vector<MeasuredShape> shapes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    MeasuredShape shape;
    if (!(words >> shape.pass)) continue;
    for (int number = 0; words >> number;) shape.numbers.push_back(number);
    if (!shape.numbers.empty()) shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace aule
