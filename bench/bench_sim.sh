#!/usr/bin/env bash
# Speed of the network simulator on one core, beside SimGrid's, see bench_sim.c; then of two whole plans on 1,024 ranks,
# which must take less than a minute each.
set -euo pipefail
"$(dirname "$PARADL")/bench/bench_sim"

plans=$(cd "$(dirname "${BASH_SOURCE[0]}")/../examples/plans" && pwd)
result=$(mktemp)
trap 'rm -f "$result"' EXIT
echo
for plan in resnet50_1024 gpt3_1024; do
    "$PARADL" simulate "$plans/$plan.yaml" --json >"$result"
    python3 - "$plan" "$result" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[2]))
seconds, projected, simulated = d["wall_s"], d["projected"]["total_s"], d["simulated"]["total_s"]
print(f"plan {sys.argv[1]}: {seconds:.3f} s for {d['flows']:,} flows, {d['ranks']:,} ranks; simulated {simulated:.5g} s, "
      f"projected {projected:.5g} s {'ok' if seconds < 60 else 'TOO SLOW'}")
sys.exit(seconds >= 60)
PYTHON
done
