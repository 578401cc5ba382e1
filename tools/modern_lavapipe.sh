#!/usr/bin/env bash
# A current lavapipe (software Vulkan with cooperative matrices) and validation layers from Debian sid, unpacked into a
# private folder: nothing is installed. The mirror is the one of this machine's own apt sources.
#
#   tools/modern_lavapipe.sh [DIR]     fetch into DIR (default build/modern-lavapipe); at once when already there
#   DIR/run PROGRAM [ARGUMENT...]      run PROGRAM on that driver
#
# The driver wants a newer C library than a stable system has, so `run` starts the program under the fetched loader.
# A failure says its cause on one line and exits with 1; callers then go without.
set -euo pipefail
fail() { echo "modern_lavapipe: $*" >&2; exit 1; }

mkdir -p "${1:-build/modern-lavapipe}"
dir=$(cd "${1:-build/modern-lavapipe}" && pwd)
root=$dir/root

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) triplet=x86_64-linux-gnu loader=ld-linux-x86-64.so.2 ;;
  Linux-aarch64) triplet=aarch64-linux-gnu loader=ld-linux-aarch64.so.1 ;;
  *) fail "only Linux on x86-64 and ARM64" ;;
esac
lib=$root/usr/lib/$triplet

# Starts Vulkan through the wrapper and prints the device's name.
driver_starts() {
  "$dir/run" "$(python3 -c "import sys; print(sys.executable)")" - <<'PY'
import ctypes as c
vk = c.CDLL("libvulkan.so.1")
class Create(c.Structure):  # VkInstanceCreateInfo
    _fields_ = [("type", c.c_int), ("next", c.c_void_p), ("flags", c.c_uint), ("application", c.c_void_p),
                ("layers", c.c_uint), ("layer_names", c.c_void_p), ("extensions", c.c_uint), ("names", c.c_void_p)]
instance, count, device = c.c_void_p(), c.c_uint(1), c.c_void_p()
assert vk.vkCreateInstance(c.byref(Create(type=1)), None, c.byref(instance)) == 0, "vkCreateInstance failed"
assert vk.vkEnumeratePhysicalDevices(instance, c.byref(count), c.byref(device)) >= 0 and count.value, "no device"
properties = c.create_string_buffer(2048)
vk.vkGetPhysicalDeviceProperties(device, properties)
print("current lavapipe:", properties.raw[20:276].split(b"\0")[0].decode())
PY
}

fetch() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "needs apt-get and dpkg-deb"
  local mirror
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -E '^(deb|URIs:)' | grep -oE '[a-z]+://[^] ]+/debian/?( |$)' | head -1 | tr -d ' ' || true)
  [[ -n $mirror ]] || fail "no Debian mirror in this machine's apt sources"
  mkdir -p "$dir"/{lists,cache/archives}/partial
  echo "deb $mirror sid main" >"$dir/sources.list"
  : >"$dir/status"  # nothing counts as installed: the whole closure is fetched, the C library with it
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$dir/lists" -o "Dir::State::Status=$dir/status" -o "Dir::Cache=$dir/cache"
    -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=1 -o Acquire::http::Timeout=30
    -o Acquire::https::Timeout=30 -o APT::Get::AllowUnauthenticated=false)
  "${apt[@]}" update >"$dir/log" 2>&1 || fail "the mirror does not serve sid: $(grep -m1 -E '^[EW]:' "$dir/log" || echo "see $dir/log")"
  "${apt[@]}" install -y --download-only --no-install-recommends mesa-vulkan-drivers libvulkan1 \
    vulkan-validationlayers >>"$dir/log" 2>&1 || fail "the packages cannot be fetched: $(grep -m1 '^E:' "$dir/log" || echo "see $dir/log")"
  local package
  for package in "$dir"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -rf "$dir/cache" "$dir/lists"
  local icd
  icd=$(cd "$root/usr/share/vulkan/icd.d" && ls lvp_icd*.json | head -1) || fail "the packages hold no lavapipe"
  # The packaged file names the library without a path, or with that of an installed system.
  sed -E "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"$lib/libvulkan_lvp.so\"#" \
    "$root/usr/share/vulkan/icd.d/$icd" >"$dir/lavapipe.json"
  cat >"$dir/run" <<RUN
#!/usr/bin/env bash
export VK_DRIVER_FILES=$dir/lavapipe.json VK_LAYER_PATH=$root/usr/share/vulkan/explicit_layer.d
program=\$(command -v -- "\$1") || { echo "\$1: not found" >&2; exit 127; }
shift
exec "$lib/$loader" --argv0 "\$program" --library-path \\
  "$lib:\${LD_LIBRARY_PATH:-/lib/$triplet}:/lib/$triplet:/usr/lib/$triplet" "\$(readlink -f "\$program")" "\$@"
RUN
  chmod +x "$dir/run"
}

if [[ ! -x $dir/run ]]; then
  rm -rf "$root"
  fetch
fi
driver_starts 2>"$dir/start.log" || fail "the driver does not start: $(tail -1 "$dir/start.log")"
