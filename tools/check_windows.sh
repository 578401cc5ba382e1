#!/usr/bin/env bash
# Compiles the layers below Torch (csrc/vulkan, csrc/stream, csrc/kernels) and their test program for Windows with
# mingw-w64, warnings as errors, and links them: the nearest thing to Windows that a Linux machine has. Nothing runs.
# Wants a built tree (build/gen). What is up to date is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '== %s\n' "$*"; }
cxx=${MINGW_CXX:-x86_64-w64-mingw32-g++-posix}
if ! command -v "$cxx" >/dev/null; then
  root=()
  [[ $(id -u) == 0 ]] || root=(sudo -n)
  if ! command -v apt-get >/dev/null || { [[ $(id -u) != 0 ]] && ! sudo -n true 2>/dev/null; }; then
    say "the Windows check is left out: no $cxx, and no apt-get that this user may call"
    exit 0
  fi
  say "installing g++-mingw-w64-x86-64-posix with apt"
  "${root[@]}" apt-get update -qq || true
  if ! DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends \
    g++-mingw-w64-x86-64-posix >/dev/null; then
    say "the Windows check is left out: g++-mingw-w64-x86-64-posix could not be installed"
    exit 0
  fi
fi
[[ -d build/gen ]] || { echo "no build/gen: build first" >&2; exit 1; }

out=build/windows
mkdir -p "$out"
rows=build/test_device_layer/rows.cpp  # the test program's own table of kernels
if [[ ! -e $rows || test/cpp/shaders.py -nt $rows ]]; then
  mkdir -p "$(dirname "$rows")"
  .venv/bin/python test/cpp/shaders.py "$rows"
fi
newest=$(ls -t csrc/vulkan/*.h csrc/stream/*.h csrc/kernels/*.h csrc/core/*.{h,def} test/cpp/*.h build/gen/*.h | head -1)
flags=(-std=c++20 -O0 -Wall -Wextra -Werror -DVK_NO_PROTOTYPES -Icsrc -Ishaders -Ishaders/common -Ibuild/gen -Itest/cpp)
objects=() todo=()
for source in csrc/{core,vulkan,stream,kernels}/*.cpp test/cpp/main.cpp "$rows"; do
  object=$out/$(tr / _ <<<"${source%.cpp}").o
  objects+=("$object")
  [[ $object -nt $source && $object -nt $newest ]] || todo+=("$source" "$object")
done
compile() { "$cxx" "${flags[@]}" -c "$1" -o "$2"; }
running=() status=0
for ((i = 0; i < ${#todo[@]}; i += 2)); do
  compile "${todo[i]}" "${todo[i + 1]}" &
  running+=($!)
  if ((${#running[@]} == 2)); then
    wait "${running[0]}" || status=1
    running=("${running[1]}")
  fi
done
for job in "${running[@]}"; do wait "$job" || status=1; done
((status == 0)) || { echo "the layers below Torch do not compile for Windows" >&2; exit 1; }
"$cxx" "${objects[@]}" -o "$out/device_tests.exe"
say "the layers below Torch compile and link for Windows: ${#objects[@]} sources, $((${#todo[@]} / 2)) of them compiled now"
