#!/usr/bin/env bash
# A current lavapipe (software Vulkan with cooperative matrices) and validation layers from Debian sid, unpacked into a
# private folder: nothing is installed.
#
#   tools/modern_lavapipe.sh [DIR]     fetch into DIR (default build/modern-lavapipe); at once when already there
#   DIR/run PROGRAM [ARGUMENT...]      run PROGRAM on that driver
#
# A failure says its cause on one line and exits with 1; callers then go without.
set -euo pipefail
fail() { echo "modern_lavapipe: $*" >&2; exit 1; }

mkdir -p "${1:-build/modern-lavapipe}"
dir=$(cd "${1:-build/modern-lavapipe}" && pwd)
source "$(dirname "$0")/debian_sid.sh"

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
  sid_packages yes mesa-vulkan-drivers libvulkan1 vulkan-validationlayers
  local icd
  icd=$(cd "$root/usr/share/vulkan/icd.d" && ls lvp_icd*.json | head -1) || fail "the packages hold no lavapipe"
  # The packaged file names the library without a path, or with that of an installed system.
  sed -E "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"$lib/libvulkan_lvp.so\"#" \
    "$root/usr/share/vulkan/icd.d/$icd" >"$dir/lavapipe.json"
  sid_runner "$dir/run" "VK_DRIVER_FILES=$dir/lavapipe.json VK_LAYER_PATH=$root/usr/share/vulkan/explicit_layer.d"
}

if [[ ! -x $dir/run ]]; then
  rm -rf "$root"
  fetch
fi
driver_starts 2>"$dir/start.log" || fail "the driver does not start: $(tail -1 "$dir/start.log")"
