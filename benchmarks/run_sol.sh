#!/usr/bin/env bash
# Measures a reference kernel beside the speed of light and draws it: what the run_<kernel>_sol.sh call.
#
#   BW=1008 MODES="forward full" benchmarks/run_layer_norm_sol.sh --overwrite
#
# BW is the copy bandwidth in GB/s (default: it is measured), MODES some of forward, backward, full (default: all),
# FOLDER where data/ and plots/ are, FILTER which configuration is drawn if the table has several, PYTHON the interpreter.
# Further arguments are those of the script of the kernel.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernel=$1
shift
modes=${MODES:-forward backward full}
folder=${FOLDER:-$here}
python=${PYTHON:-python}
"$python" "$here/scripts/benchmark_$kernel.py" --sol --modes "$modes" --folder "$folder" ${BW:+--bandwidth "$BW"} "$@"
for mode in ${modes//,/ }; do
  "$python" -m torch_aule.benchmark.visualize --kernel-name "$kernel" --kernel-operation-mode "$mode" \
    --folder "$folder" --overwrite ${FILTER:+--extra-config-filter "$FILTER"}
done
