#!/usr/bin/env bash
# SwiftShader, the software driver of browsers, from Debian sid's Chromium: a driver that lacks what every device must
# have, for the tests of what is said then. Nothing is installed.
#
#   tools/swiftshader.sh [DIR [CURRENT]]   fetch into DIR (default build/swiftshader); at once when already there. It
#                                          runs on the C library of CURRENT (default build/modern-lavapipe, which
#                                          modern_lavapipe.sh fills first)
#   DIR/run PROGRAM [ARGUMENT...]          run PROGRAM on that driver
#
# A failure says its cause on one line and exits with 1; callers then go without.
set -euo pipefail
fail() { echo "swiftshader: $*" >&2; exit 1; }

here=$(dirname "$0")
"$here/modern_lavapipe.sh" "${2:-build/modern-lavapipe}" >&2 || fail "without the current C library nothing can be done"
mkdir -p "${1:-build/swiftshader}"
dir=$(cd "${1:-build/swiftshader}" && pwd)
current=$(cd "${2:-build/modern-lavapipe}" && pwd)
runner=$dir/run
source "$here/debian_sid.sh"
driver=$root/usr/lib/chromium/vk_swiftshader_icd.json
if [[ ! -x $runner ]]; then
  rm -rf "$root"
  sid_packages no chromium-common
  [[ -e $driver && -e ${driver%/*}/libvk_swiftshader.so ]] || fail "the package holds no SwiftShader"
  find "$root" -type f ! -name '*vk_swiftshader*' -delete
  dir=$current
  source "$here/debian_sid.sh"
  sid_runner "$runner" "VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver"
fi
