#include "core/limits.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <string_view>

#include "core/settings.h"

namespace aule {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr DeviceSet kSets[] = {
#define AULE_DEVICE_SET(name, devices, limits, without) {name, devices, limits, without},
#include "core/device_limits.def"
};

#define AULE_ONE(member, least)                           \
  {#member,                                               \
   1,                                                     \
   {least},                                               \
   [](const Caps& c, int) { return uint64_t{c.member}; }, \
   [](Caps& c, int, uint64_t value) { c.member = static_cast<decltype(c.member)>(value); }}
#define AULE_THREE(member, ...)                                      \
  {#member,                                                          \
   3,                                                                \
   {__VA_ARGS__},                                                    \
   [](const Caps& c, int axis) { return uint64_t{c.member[axis]}; }, \
   [](Caps& c, int axis, uint64_t value) { c.member[axis] = static_cast<uint32_t>(value); }}
constexpr Limit kLimits[] = {
    AULE_ONE(shared_bytes, 16384),
    AULE_ONE(max_workgroup_invocations, 128),
    AULE_THREE(max_workgroup_size, 128, 128, 64),
    AULE_THREE(max_group_count, 65535, 65535, 65535),
    AULE_ONE(max_push_constant_bytes, 128),
    // The allocator's shared segments have 20 MiB, a stream's chunks for copies 8 MiB.
    AULE_ONE(max_allocation_bytes, 32 * kMiB),
    AULE_ONE(max_buffer_bytes, 32 * kMiB),
    AULE_ONE(device_heap_bytes, 64 * kMiB),
    AULE_ONE(mapped_heap_bytes, 4 * kMiB),  // half of it for segments of small blocks, which have 2 MiB
    AULE_ONE(min_subgroup_size, 1),
    AULE_ONE(max_subgroup_size, 1),
};
#undef AULE_ONE
#undef AULE_THREE

constexpr uint64_t kLargestSubgroup = 128;  // of any device, by Vulkan
constexpr const char* kLeast = ", the least that plans can do with";

// A driver chooses the size of subgroups between the two, so that only a wider range is one that it keeps: the smallest
// may fall, and the largest rise.
bool rises(const Limit& limit) { return std::string_view(limit.name) == "max_subgroup_size"; }

// "32768", "32KiB", "2GiB".
std::optional<uint64_t> number_of(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return {};
  const std::string_view unit(next, static_cast<size_t>(end - next));
  const int shift = unit.empty() ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (shift < 0 || value > UINT64_MAX >> shift) return {};
  return value << shift;
}

bool is_name(const std::string& part) { return std::isdigit(static_cast<unsigned char>(part.front())) == 0; }

void parse_into(const std::string& text, LimitSettings& found, std::vector<LimitSettings::Values>& into) {
  for (const auto& [name, value] : settings_of(text, &is_name)) {
    const auto set = std::find_if(std::begin(kSets), std::end(kSets), [&](const auto& s) { return name == s.name; });
    if (set != std::end(kSets) && value.empty()) {
      found.sets.push_back(set);
      parse_into(set->limits, found, found.of_sets);
      continue;
    }
    const auto limit =
        std::find_if(std::begin(kLimits), std::end(kLimits), [&](const auto& l) { return name == l.name; });
    const bool loops = name == "max_loop_iterations";
    if (limit == std::end(kLimits) && !loops) {
      found.ignored.push_back("'" + name + "' is ignored, no limit and no set has this name");
      continue;
    }
    std::vector<uint64_t> values;
    const auto parts = parts_of(value);
    for (const std::string& part : parts) {
      if (const auto number = number_of(part)) values.push_back(*number);
    }
    const size_t most = loops ? 1 : static_cast<size_t>(limit->axes);
    if (values.empty() || values.size() != parts.size() || (values.size() != 1 && values.size() != most) ||
        (loops && values[0] > UINT32_MAX)) {
      found.ignored.push_back(name + " is ignored: it has no meaning as '" + value + "'");
    } else if (loops) {
      found.max_loop_iterations = static_cast<uint32_t>(values[0]);
    } else {
      into.emplace_back(limit, std::move(values));
    }
  }
}

// The lower of the two; a device's own of 0 is one that the driver does not tell.
uint64_t lower(uint64_t own, uint64_t value) { return own == 0 ? value : std::min(own, value); }

std::string refusal(const Limit& limit, const std::vector<uint64_t>& values, const Caps& own) {
  const bool each = values.size() > 1;
  uint64_t most = 0, least = 0;
  for (int axis = 0; axis < limit.axes; ++axis) {
    const uint64_t has = limit.get(own, axis);
    const uint64_t value = values[each ? static_cast<size_t>(axis) : 0];
    if (each && value > has) return "is above the device's own, " + std::to_string(has);
    if (each && value < limit.least[axis]) return "is below " + std::to_string(limit.least[axis]) + kLeast;
    most = std::max(most, has == 0 ? UINT64_MAX : has);
    least = std::max(least, limit.least[axis]);
  }
  if (each) return {};
  const uint64_t value = values[0];
  const bool subgroup = std::string_view(limit.name).ends_with("subgroup_size");
  if (subgroup && !std::has_single_bit(value)) return "is no power of two";
  if (rises(limit)) {
    if (value < most)
      return "is below the device's own, " + std::to_string(most) + ", which its driver may go on choosing";
    return value > kLargestSubgroup ? "is above the largest subgroup of any device, " + std::to_string(kLargestSubgroup)
                                    : std::string();
  }
  if (value > most) return "is above the device's own, " + std::to_string(most);
  if (value < least) return "is below " + std::to_string(least) + kLeast;
  return {};
}

std::string joined(const std::vector<uint64_t>& values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

void take(const Limit& limit, const std::vector<uint64_t>& values, const Caps& before, Caps& caps) {
  for (int axis = 0; axis < limit.axes; ++axis) {
    const uint64_t has = limit.get(before, axis), value = values[values.size() > 1 ? static_cast<size_t>(axis) : 0];
    limit.set(caps, axis, rises(limit) ? std::max(has, value) : lower(has, value));
  }
}

}  // namespace

std::span<const DeviceSet> device_sets() { return kSets; }
std::span<const Limit> limits() { return kLimits; }

LimitSettings parse_limits(const std::string& text) {
  LimitSettings found;
  parse_into(text, found, found.given);
  return found;
}

std::string apply_limits(const LimitSettings& settings, Caps& caps) {
  const Caps own = caps;
  std::string refused;
  for (const auto& [limit, values] : settings.of_sets) take(*limit, values, Caps(caps), caps);  // the least of several
  for (const auto& [limit, values] : settings.given) {
    const std::string why = refusal(*limit, values, own);
    if (why.empty())
      take(*limit, values, own, caps);
    else
      refused += (refused.empty() ? "" : "; ") + std::string(limit->name) + "=" + joined(values) + " " + why;
  }
  // A workgroup of a kernel is a row of invocations.
  caps.max_workgroup_invocations = std::min(caps.max_workgroup_invocations, caps.max_workgroup_size[0]);
  // A driver tells about the whole heap. A smaller one is known by what this process took.
  if (caps.device_heap_bytes < own.device_heap_bytes) caps.memory_budget = false;
  return refused;
}

}  // namespace aule
