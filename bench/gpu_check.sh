#!/usr/bin/env bash
# Checks and measures a GPU in a few minutes: the self-test, then rates beside what the card can do at most.
#
#   bench/gpu_check.sh FOLDER      FOLDER gets gpu-<card>-<date>.json
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: bench/gpu_check.sh FOLDER" >&2; exit 2; }
python=${PYTHON:-python3}
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
"$python" bench/gpu_check.py --only-find-gpu
"$python" -m gpusim selftest --backend cuda
"$python" bench/gpu_check.py "$folder"
