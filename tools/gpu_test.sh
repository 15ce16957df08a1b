#!/usr/bin/env bash
# tools/gpu_test.sh [check]: the tests of GPUs on GPU $GPU (0), programs of $BUILD; with `check` under compute-sanitizer. Prints a
# line for each and writes $JSON. Status 1 when one fails; where there is no GPU all are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/debug}
json=${JSON:-build/gpu-test.json}
gpu=${GPU:-0}
export PARADL_SHARE=${PARADL_SHARE:-$PWD/share}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

programs=(test_tensor_cuda_vectors test_tensor_cuda_ops test_tensor_sync_batch_norm test_tensor_split_vocabulary test_train_cuda)
ways=("")
[ "${1:-}" = check ] && ways=(memcheck racecheck initcheck)

failures=0
rows=()
for way in "${ways[@]}"; do
    for program in "${programs[@]}"; do
        path=$build/tests/$program
        [ -x "$path" ] || path=$build/$program
        command=("$path" --device "$gpu")
        # All ways of running all layers take hours under it.
        [ "$program $way" != "test_tensor_cuda_ops racecheck" ] || command+=(few)
        [ -z "$way" ] || command=(compute-sanitizer --tool "$way" --error-exitcode 3 "${command[@]}")
        begin=$(date +%s.%N)
        status=0
        "${command[@]}" >"$log" 2>&1 || status=$?
        seconds=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
        case $status in
        0) result=ok ;;
        77) result=skipped ;;
        *) result=FAILED ;;
        esac
        printf '%-8s %-30s %-10s %6s s\n' "$result" "$program" "$way" "$seconds"
        if [ "$result" = FAILED ]; then
            failures=$((failures + 1))
            tail -5 "$log" | cut -c1-200
        elif [ "$result" = skipped ]; then
            head -1 "$log"
        fi
        rows+=("{\"test\": \"$program\", \"way\": \"$way\", \"result\": \"$result\", \"seconds\": $seconds}")
    done
done
mkdir -p "$(dirname "$json")"
(IFS=,; printf '{"paradl": "gpu-test/1", "device": %s, "tests": [%s]}\n' "$gpu" "${rows[*]}") >"$json"
echo "$failures failed; $json"
[ "$failures" -eq 0 ]
