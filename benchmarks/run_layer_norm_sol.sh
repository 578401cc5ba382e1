#!/usr/bin/env bash
# layer_norm beside the speed of light; what BW, MODES and the others mean is in benchmarks/run_sol.sh.
exec "$(dirname "${BASH_SOURCE[0]}")/run_sol.sh" layer_norm "$@"
