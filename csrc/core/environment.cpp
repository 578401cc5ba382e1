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
#include <vector>

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
                   {{"simd", V::simd},
                    {"simt", V::simt},
                    {"coopmat", V::coopmat},
                    {"coopmat_opaque", V::coopmat_opaque},
                    {"splitkv", V::splitkv},
                    {"splitkv_shared", V::splitkv_shared}},
                   value);
}
bool parse(const std::string& text, PieceType& value) {
  return choose<PieceType>(text, {{"bfloat16", PieceType::bfloat16}, {"float16", PieceType::float16}}, value);
}
bool parse(const std::string& text, AlignedRows& value) {
  return choose<AlignedRows>(text, {{"always", AlignedRows::always}, {"never", AlignedRows::never}}, value);
}

// An empty variable is as good as none, but for a text.
template <class T>
void read(const char* name, T& value) {
  const char* text = read_variable(name);
  if (text == nullptr || (*text == '\0' && !std::is_same_v<T, Text>)) return;
  if (!parse(text, value))
    std::fprintf(stderr, "[aule] %s is ignored: it has no meaning as '%s' (docs/environment.md)\n", name, text);
}

bool is_disabled(std::string capability) {
  std::transform(capability.begin(), capability.end(), capability.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  bool flag = false;
  read(("TORCH_AULE_DISABLE_" + capability).c_str(), flag);
  return flag;
}

Environment parse_environment() {
  Environment e;
#define AULE_READ(type, member, otherwise, variable) read(variable, e.member);
  AULE_ENVIRONMENT(AULE_READ)
#undef AULE_READ
#define AULE_CAPABILITY(name, lack) e.disabled.name = is_disabled(#name);
#include "core/capabilities.def"
  return e;
}

Overrides parse_overrides() {
  Overrides o;
#define AULE_READ(type, member, otherwise, variable) read(variable, o.member);
  AULE_OVERRIDES(AULE_READ)
#undef AULE_READ
  return o;
}

// All that were ever current: a planner on another thread may still hold one.
struct Published {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Overrides>> all;
  std::atomic<const Overrides*> current{nullptr};

  Published() { publish(parse_overrides()); }
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
#define AULE_SET(type, name, otherwise, variable)                                                                 \
  if (member == #name) {                                                                                          \
    if (text.empty())                                                                                             \
      overrides.name = defaults.name;                                                                             \
    else if (!parse(text, overrides.name))                                                                        \
      throw std::invalid_argument("override " + member + ": expected what " variable " takes, but got '" + text + \
                                  "'");                                                                           \
    return;                                                                                                       \
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
