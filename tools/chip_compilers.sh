#!/usr/bin/env bash
# The compilers of GPUs that are not there: Mesa's own drivers on stand-ins for the kernel's, which answer as such a GPU
# would and execute nothing. Pipelines are really compiled; dispatches leave memory as it was.
#
#   tools/chip_compilers.sh [DIR]       fetch into DIR (default build/modern-lavapipe, which modern_lavapipe.sh fills
#                                       first) and list the chips; at once when already there
#   DIR/run-CHIP PROGRAM [ARGUMENT...]  run PROGRAM with that chip as the only Vulkan device
#
# A failure says its cause on one line and exits with 1; callers then go without.
set -euo pipefail
fail() { echo "chip_compilers: $*" >&2; exit 1; }

"$(dirname "$0")/modern_lavapipe.sh" "${1:-build/modern-lavapipe}" >&2 || fail "without the current Mesa nothing can be done"
dir=$(cd "${1:-build/modern-lavapipe}" && pwd)
source "$(dirname "$0")/debian_sid.sh"
[[ $triplet == x86_64-linux-gnu ]] || fail "the stand-ins exist for x86-64 only"
[[ -e $lib/libamdgpu_noop_drm_shim.so ]] || sid_packages no mesa-drm-shim

# chip, driver, stand-in, environment by which the stand-in knows its part
while read -r chip driver shim variable; do
  [[ -e $lib/libvulkan_$driver.so && -e $lib/lib${shim}_noop_drm_shim.so ]] || continue
  printf '{"ICD": {"api_version": "1.4.0", "library_path": "%s"}, "file_format_version": "1.0.0"}\n' \
    "$lib/libvulkan_$driver.so" >"$dir/$chip.json"
  sid_runner "$dir/run-$chip" "VK_DRIVER_FILES=$dir/$chip.json $variable" "lib${shim}_noop_drm_shim.so"
  echo "$chip"
done <<CHIPS
polaris10 radeon amdgpu AMDGPU_GPU_ID=polaris10
vega10 radeon amdgpu AMDGPU_GPU_ID=vega10
vega20 radeon amdgpu AMDGPU_GPU_ID=vega20
renoir radeon amdgpu AMDGPU_GPU_ID=renoir
navi10 radeon amdgpu AMDGPU_GPU_ID=navi10
navi21 radeon amdgpu AMDGPU_GPU_ID=navi21
vangogh radeon amdgpu AMDGPU_GPU_ID=vangogh
rembrandt radeon amdgpu AMDGPU_GPU_ID=rembrandt
navi31 radeon amdgpu AMDGPU_GPU_ID=navi31
navi33 radeon amdgpu AMDGPU_GPU_ID=navi33
phoenix radeon amdgpu AMDGPU_GPU_ID=phoenix
strix1 radeon amdgpu AMDGPU_GPU_ID=strix1
gfx1201 radeon amdgpu AMDGPU_GPU_ID=gfx1201
m1 asahi asahi
adreno618 freedreno freedreno FD_GPU_ID=618
adreno660 freedreno freedreno FD_GPU_ID=660
adreno730 freedreno freedreno FD_GPU_ID=730
adreno740 freedreno freedreno FD_GPU_ID=740
adreno750 freedreno freedreno FD_GPU_ID=750
adreno810 freedreno freedreno FD_GPU_ID=810
adreno830 freedreno freedreno FD_GPU_ID=830
tu102 nouveau nouveau NOUVEAU_CHIPSET=0x162
ga102 nouveau nouveau NOUVEAU_CHIPSET=0x172
nvk nouveau nouveau NOUVEAU_CHIPSET=0x194
gb202 nouveau nouveau NOUVEAU_CHIPSET=0x1b2
CHIPS
