#!/usr/bin/env bash
# tools/gpu_bench.sh: training, projections, out-of-core training and predictions on an NVIDIA GPU, each by its script in bench/, with PyTorch beside them where
# it is there. The tables are printed and kept in $FOLDER (build/gpu-bench), figures as JSON in gpu-bench.json there. PARTS="training predictions"
# picks some. About half an hour; options of the scripts (ROUNDS, STEPS, MODELS, CASES, ...) come from the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOURCE=$PWD PARADL=${PARADL:-$PWD/build/release/paradl} PARADL_SHARE=${PARADL_SHARE:-$PWD/share}
folder=${FOLDER:-build/gpu-bench}
mkdir -p "$folder"
. bench/common.sh
python=$(find_python)
rm -f "$folder"/*.json

# part NAME COMMAND...: its table on the screen and in a file.
part() {
    local name=$1
    shift
    case " ${PARTS:-training projections out-of-core predictions} " in *" $name "*) ;; *) return 0 ;; esac
    echo "== $name"
    JSON=$folder/$name.json "$@" 2>&1 | tee "$folder/$name.txt"
}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
    echo "skipped: no NVIDIA GPU"
    exit 0
fi
part training bash bench/bench_gpu.sh
part projections env LIMIT="${LIMIT:-600}" bash bench/bench_gpu_projection.sh
part out-of-core bash bench/bench_gpu_out_of_core.sh
if [ -n "$python" ]; then
    part predictions "$python" bench/predict_torch.py --paradl "$PARADL" --device cuda --no-check --bench \
        --json "$folder/predictions.json"
else
    echo "== predictions: left out, torch is not installed"
fi

{
    printf '{"paradl": "gpu-bench/1"'
    for file in "$folder"/training.json "$folder"/projections.json "$folder"/out-of-core.json "$folder"/predictions.json; do
        [ ! -s "$file" ] || printf ', "%s": %s' "$(basename "$file" .json)" "$(cat "$file")"
    done
    printf '}\n'
} >"$folder/gpu-bench.json"
echo "figures: $folder/gpu-bench.json"
