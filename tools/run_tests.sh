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

# Processes that tests start want the driver's loader too.
on_current() {
  TORCH_AULE_TEST_LAUNCHER=$PWD/build/modern-lavapipe/run build/modern-lavapipe/run "$py" -m pytest -q -p no:cacheprovider "$@"
}

if tools/modern_lavapipe.sh build/modern-lavapipe; then
  has_current=1
  echo "== on a current lavapipe, with cooperative matrices"
  # Matrices, attention, what takes 256 bytes of push constants or reads optional addresses, in two processes (not
  # pytest's: those would be started without the driver's loader). Two minutes of two cores, or seven where no pipeline
  # is cached.
  { on_current test/test_attention_coopmat.py test/test_tune.py test/test_attention_modules.py \
      test/test_attention_cache.py test/test_loss.py test/test_optim.py test/test_random.py; first=$?
    compilers && exit "$first"
    exit 1
  } > build/on_current.log 2>&1 &
  other=$!
  on_current test/test_attention_coopmat_opaque.py test/test_matmul.py test/test_norm_softmax.py test/test_attention.py \
    test/test_attention_splitkv.py test/test_attention_simt.py || status=1
  TORCH_AULE_DISABLE_SUBGROUP_SHUFFLE=1 on_current test/test_matmul.py test/test_conv.py \
    -k "matrix_units or convolution" || status=1
  wait "$other" || status=1
  cat build/on_current.log
else
  echo "== the pass on a current lavapipe is left out: its packages could not be fetched (see above)"
  compilers || status=1
fi

# lavapipe's subgroups are as wide as its vectors. What computes in subgroups, with the narrowest and the widest ones; other
# drivers ignore the variable.
other_subgroups="test_layouts and not matmul or infinities or masked or many_rows or extremes or nan or ties or long_sums or
  sum_and_product or sort_is_stable or nonzero or test_vectors"
for width in 128 512; do
  echo "== on the installed driver, with vectors of $width bits"
  LP_NATIVE_VECTOR_WIDTH=$width "$py" -m pytest -q -p no:cacheprovider test/test_norm_softmax.py test/test_norm.py \
    test/test_reduce.py test/test_reduce_scan.py test/test_sort.py test/test_matmul.py \
    -k "${other_subgroups//$'\n'/}" > "build/vectors_$width.log" 2>&1 &
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
