#include "core/environment.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "core/settings.h"

namespace aule {
namespace {

const char* read_variable(const std::string& name) { return std::getenv(name.c_str()); }

// False: no such value, and `value` stays.
bool parse(const std::string& text, bool& value) {
  value = text != "0";
  return true;
}
bool parse(const std::string& text, double& value) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') return false;
  value = number;
  return true;
}
bool parse(const std::string& text, Text& value) {
  value = text;
  return true;
}
bool parse(const std::string& text, Numbers& value) {
  Numbers found;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    if (found.count == Numbers::kMost) return false;
    const auto [next, error] = std::from_chars(at, end, found.values[static_cast<size_t>(found.count)]);
    if (error != std::errc()) return false;
    ++found.count;
    if (next == end) break;
    if (*next != ',') return false;
    at = next + 1;
  }
  value = found;
  return true;
}
template <class T, size_t N>
bool choose(const std::string& text, const std::pair<std::string_view, T> (&choices)[N], T& value) {
  for (const auto& [name, choice] : choices) {
    if (name != text) continue;
    value = choice;
    return true;
  }
  return false;
}
bool parse(const std::string& text, AttentionVariant& value) {
  using V = AttentionVariant;
  return choose<V>(text,
                   {
#define ATTENTION_FAMILY(name, Plan) {#name, V::name},
#include "ops/attention/family/families.def"
#undef ATTENTION_FAMILY
                   },
                   value);
}
bool parse(const std::string& text, PieceType& value) {
  return choose<PieceType>(text, {{"bfloat16", PieceType::bfloat16}, {"float16", PieceType::float16}}, value);
}
bool parse(const std::string& text, AlignedRows& value) {
  return choose<AlignedRows>(text, {{"always", AlignedRows::always}, {"never", AlignedRows::never}}, value);
}
bool parse(const std::string& text, HaloConv& value) {
  return choose<HaloConv>(text, {{"always", HaloConv::always}, {"never", HaloConv::never}}, value);
}
bool parse(const std::string& text, ScaledHalves& value) {
  return choose<ScaledHalves>(text, {{"always", ScaledHalves::always}, {"never", ScaledHalves::never}}, value);
}
bool parse(const std::string& text, ProductParts& value) {
  return choose<ProductParts>(text, {{"by_cost", ProductParts::by_cost}, {"always", ProductParts::always}}, value);
}

// An empty variable is as good as none, but for a text.
template <class T>
void read(const char* name, T& value) {
  const char* text = read_variable(name);
  if (text == nullptr || (*text == '\0' && !std::is_same_v<T, Text>)) return;
  if (!parse(text, value))
    std::fprintf(stderr, "[aule] %s is ignored: it has no meaning as '%s' (docs/use/environment.md)\n", name, text);
}

void read_disabled(const std::string& text, Environment& e) {
  for (std::string name : parts_of(text)) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    bool known = false;
#define AULE_NAME(which) \
  if (name == #which) known = e.disabled.which = true;
    AULE_SWITCHES(AULE_NAME)
#define AULE_CAPABILITY(which, lack) AULE_NAME(which)
#include "core/capabilities.def"
#undef AULE_NAME
    if (!known)
      std::fprintf(stderr,
                   "[aule] TORCH_AULE_DISABLE: '%s' is ignored, nothing has this name (docs/use/environment.md)\n",
                   name.c_str());
  }
}

Environment parse_environment() {
  Environment e;
#define AULE_READ(type, member, otherwise, variable) read(variable, e.member);
  AULE_ENVIRONMENT(AULE_READ)
#undef AULE_READ
  if (e.disable.has_value()) read_disabled(*e.disable, e);
  e.limited = parse_limits(e.limits.value_or(""));
  for (const DeviceSet* set : e.limited.sets) read_disabled(std::string(set->without) + ",cpu_kernels", e);
  for (const std::string& why : e.limited.ignored)
    std::fprintf(stderr, "[aule] TORCH_AULE_LIMITS: %s (docs/use/environment.md)\n", why.c_str());
  return e;
}

Overrides parse_overrides(const std::string& text) {
  Overrides o;
  for (const auto& [name, value] : settings_of(text)) {
    try {
      set_override(o, name, value);
    } catch (const std::invalid_argument& error) {
      std::fprintf(stderr, "[aule] TORCH_AULE_OVERRIDES: %s is ignored: %s (docs/use/environment.md)\n", name.c_str(),
                   error.what());
    }
  }
  return o;
}

// All that were ever current: a planner on another thread may still hold one.
struct Published {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Overrides>> all;
  std::atomic<const Overrides*> current{nullptr};

  Published() { publish(parse_overrides(environment().overrides.value_or(""))); }
  void publish(const Overrides& wanted) {
    std::lock_guard lock(mutex);
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& o) { return *o == wanted; });
    if (found == all.end()) found = all.insert(all.end(), std::make_unique<const Overrides>(wanted));
    current.store(found->get(), std::memory_order_release);
  }
};
Published& published() {
  static auto* result = new Published;
  return *result;
}

}  // namespace

const Environment& environment() {
  static const auto* result = new Environment(parse_environment());
  return *result;
}

const Overrides& overrides() { return *published().current.load(std::memory_order_acquire); }
void set_overrides(const Overrides& wanted) { published().publish(wanted); }

void set_override(Overrides& overrides, const std::string& member, const std::string& text) {
  static const Overrides defaults;
#define AULE_SET(type, name, otherwise)                                                         \
  if (member == #name) {                                                                        \
    if (text.empty())                                                                           \
      overrides.name = defaults.name;                                                           \
    else if (!parse(text, overrides.name))                                                      \
      throw std::invalid_argument("override " + member + ": '" + text + "' is no value of it"); \
    return;                                                                                     \
  }
  AULE_OVERRIDES(AULE_SET)
#undef AULE_SET
  throw std::invalid_argument("there is no override named '" + member + "'");
}

std::filesystem::path cache_directory() {
  const auto& asked = environment().cache_dir;
  if (asked.has_value() && !asked->empty()) return *asked;
#ifdef _WIN32
  if (const char* local = read_variable("LOCALAPPDATA")) return std::filesystem::path(local) / "torch_aule";
#endif
  if (const char* xdg = read_variable("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
    return std::filesystem::path(xdg) / "torch_aule";
  if (const char* home = read_variable("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "torch_aule";
  return {};
}

}  // namespace aule
