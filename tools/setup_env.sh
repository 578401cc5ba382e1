#!/usr/bin/env bash
# Makes .venv, installs torch and the build tools, finds a Vulkan driver, builds. What is there already is left alone.
#
#   tools/setup_env.sh [demo] [test]     the extras of pyproject.toml to install beside the build's own needs
#
# PYTHON names the interpreter for a new .venv (default python3); TORCH_VERSION the torch to install (default 2.13.0).
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=  # else whoever starts Python here compiles all of PyTorch's, each time
extras=("$@")
say() { printf '== %s\n' "$*"; }
# watched WHAT LOG COMMAND...: runs the command with its output in a file, and says every five seconds how far it is:
# the last [n/m] that the file has, and the seconds.
watched() {
  local what=$1 log=$2 began=$SECONDS status=0 far
  shift 2
  say "$what"
  "$@" >"$log" 2>&1 &
  local job=$!
  while sleep 1 && kill -0 $job 2>/dev/null; do
    (((SECONDS - began) % 5 == 0)) || continue
    far=$(grep -oE '^(shaders: )?\[[0-9]+/[0-9]+\]' "$log" | tail -1 || true)
    say "$what: ${far:+$far, }$((SECONDS - began)) s"
  done
  wait $job || status=$?
  return $status
}

# System packages: a compiler, and a Vulkan driver (a GPU's own, or lavapipe, software, where there is none).
packages=()
has_driver() {
  compgen -G "/usr/share/vulkan/icd.d/*.json" >/dev/null || compgen -G "/etc/vulkan/icd.d/*.json" >/dev/null ||
    compgen -G "$HOME/.local/share/vulkan/icd.d/*.json" >/dev/null || [[ -n ${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-} ]]
}
# grep reads to the end: with -q it may end before ldconfig does, which then fails, and with it the pipe.
has_loader() { ldconfig -p 2>/dev/null | grep 'libvulkan\.so\.1' >/dev/null; }
if [[ $(uname -s) == Linux ]]; then
  has_loader || packages+=(libvulkan1)
  has_driver || packages+=(mesa-vulkan-drivers)
  if [[ " ${extras[*]} " == *" test "* ]] && ! compgen -G "/usr/share/vulkan/explicit_layer.d/*alidation*.json" >/dev/null; then
    packages+=(vulkan-validationlayers)
  fi
  [[ -n ${CXX:-} ]] || command -v g++ >/dev/null || packages+=(g++)
  python=${PYTHON:-python3}
  [[ -x .venv/bin/python ]] && python=.venv/bin/python
  # Debian keeps these apart from the interpreter.
  "$python" -c 'import ensurepip' 2>/dev/null || [[ -x .venv/bin/python ]] || packages+=(python3-venv)
  "$python" -c 'import os, sysconfig; open(os.path.join(sysconfig.get_paths()["include"], "Python.h"))' 2>/dev/null ||
    packages+=(python3-dev)
fi
if ((${#packages[@]})); then
  root=()
  [[ $(id -u) == 0 ]] || root=(sudo -n)
  if command -v apt-get >/dev/null && { [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null; }; then
    say "installing ${packages[*]} with apt"
    "${root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  else
    echo "Missing system packages, and this user may not install them. On Debian or Ubuntu run:" >&2
    echo "    sudo apt-get install ${packages[*]}" >&2
    exit 1
  fi
fi

if [[ ! -x .venv/bin/python ]]; then
  say "making .venv"
  "${PYTHON:-python3}" -m venv .venv
fi
py=$PWD/.venv/bin/python

# --no-compile: what is imported is compiled then, a tenth of what these packages bring.
if ! "$py" -c 'import torch' 2>/dev/null; then
  mkdir -p build
  watched "installing torch ${TORCH_VERSION:-2.13.0}" build/torch-install.log \
    "$py" -m pip install -q --no-compile "torch==${TORCH_VERSION:-2.13.0}" numpy ||
    { tail -5 build/torch-install.log >&2; exit 1; }
fi
are_installed() {
  "$py" - "$@" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
for text in sys.argv[1:]:
    need = Requirement(text)
    if need.marker and not need.marker.evaluate():
        continue
    try:
        if not need.specifier.contains(version(need.name), prereleases=True):
            sys.exit(1)
    except PackageNotFoundError:
        sys.exit(1)
PY
}
# Of the build and of the extras. What is installed already is left alone.
install() {
  local needs
  mapfile -t needs < <("$py" tools/needs.py "$@")
  are_installed "${needs[@]}" && return
  say "installing ${needs[*]}"
  "$py" -m pip install -q --no-compile "${needs[@]}"
}
install build

# What the build does not want comes while it runs.
background=()
if ((${#extras[@]})); then
  install "${extras[@]}" &
  background+=($!)
fi
if [[ " ${extras[*]} " == *" test "* ]]; then
  tools/chip_compilers.sh >/dev/null 2>&1 || true & # who wants them fetches them again, and says what is wrong
  background+=($!)
fi
watched "building, minutes the first time" build-log.txt "$py" setup.py -q build_ext --inplace || {
  grep -E 'error|Error' build-log.txt | head -40 >&2
  echo "the build failed; see build-log.txt" >&2
  exit 1
}
for job in "${background[@]}"; do wait "$job"; done
"$py" - <<'PY'
import os
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
import torch, torch_aule
count = torch.aule.device_count()
print("== device:", torch.aule.get_device_name(0) if count else "none: " + torch_aule._C.unavailable_reason())
raise SystemExit(0 if count else 1)
PY
