#!/usr/bin/env bash
# The whole suite in strict mode: once on the installed Vulkan driver under the validation layers with synchronisation
# validation, once (a subset) on a current lavapipe with cooperative matrices where one can be fetched.
set -uo pipefail
cd "$(dirname "$0")/.."
py=$PWD/.venv/bin/python
export TORCH_AULE_STRICT=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0 TORCHINDUCTOR_FORCE_DISABLE_CACHES=1
# Each process of all passes adds the kernels that it launches.
export TORCH_AULE_KERNEL_LOG=$PWD/build/kernels.log
mkdir -p build && rm -f "$TORCH_AULE_KERNEL_LOG"
status=0 has_current=0

# What only compiles. It runs beside the tests.
compilers() {
  local failed=0
  echo "== compiled for chips that are not there: RDNA4, Apple M1, Adreno"
  TORCH_AULE_KERNEL_LOG= "$py" benchmarks/chip_statistics.py --smoke  # nothing runs there
  case $? in
    0) ;;
    77) echo "== left out: the compilers of chips could not be fetched (see above)" ;;
    *) failed=1 ;;
  esac
  echo "== as for Windows"
  tools/check_windows.sh || failed=1
  return "$failed"
}

# Of pytest's processes, and of those that tests start, each wants the driver's loader. The suites are markers: what they
# are for stands in pyproject.toml, and their tests say that they belong to them.
on_current() {
  local run=build/modern-lavapipe/run
  TORCH_AULE_TEST_LAUNCHER=$PWD/$run "$run" "$py" -m pytest -q -p no:cacheprovider --dist load \
    --tx "${TORCH_AULE_TEST_JOBS:-2}*popen//python=$run .venv/bin/python" "$@"
}

if tools/modern_lavapipe.sh build/modern-lavapipe; then
  has_current=1
  echo "== on a current lavapipe, with cooperative matrices"
  # Two minutes of two cores, or seven where no pipeline is cached.
  on_current -m current_lavapipe || status=1
  compilers > build/compilers.log 2>&1 &
  other=$!
  TORCH_AULE_TEST_JOBS=1 TORCH_AULE_DISABLE_SUBGROUP_SHUFFLE=1 on_current -m without_shuffles || status=1
  wait "$other" || status=1
  cat build/compilers.log
else
  echo "== the pass on a current lavapipe is left out: its packages could not be fetched (see above)"
  compilers || status=1
fi

# lavapipe's subgroups are as wide as its vectors. What computes in subgroups, with the narrowest and the widest ones; other
# drivers ignore the variable.
for width in 128 512; do
  echo "== on the installed driver, with vectors of $width bits"
  LP_NATIVE_VECTOR_WIDTH=$width "$py" -m pytest -q -p no:cacheprovider -m vector_widths > "build/vectors_$width.log" 2>&1 &
  passes[width]=$!
done
for width in 128 512; do
  wait "${passes[width]}" || status=1
  cat "build/vectors_$width.log"
done

echo "== on the installed driver, under the validation layers"
TORCH_AULE_VALIDATION=1 "$py" -m pytest -q -n "${TORCH_AULE_TEST_JOBS:-2}" test || status=1

if [ "$has_current" = 1 ]; then
  echo "== kernels that no pass has launched"
  "$py" test/kernel_coverage.py "$TORCH_AULE_KERNEL_LOG" && echo none || status=1
fi
exit $status
