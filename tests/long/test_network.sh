#!/usr/bin/env bash
# Real networks of 8 hosts out of namespaces and shaped cables (network.py): each is measured by paradl calibrate --network, then every
# allreduce runs on it beside its simulation. Checked are results, the mean error, the order of pairs and the choice of auto, all
# generously: processes share the cores of one machine with whatever else runs there. Minutes; needs root.
#
#     SHAPES="tree dln" tests/long/test_network.sh        # some of tree, ring, torus, dln
#     MTU=576 BURST=600b ...                              # small packets: what pipelines need to be right (docs/mpi.md)
set -euo pipefail
. "$SOURCE/tests/long/network.sh"

for shape in ${SHAPES:-tree ring torus dln}; do
    up "$shape"
    measure "$shape"
    on_hosts coll bench --network "$PWD/$shape-measured.yaml" --min-bytes 512KiB --max-bytes 512KiB --iterations "${ITERATIONS:-3}" --json \
        >"$shape.json" 2>err || fail "$shape: coll bench: $(tail -3 err)"
    python3 - "$shape" <<'PYTHON' || fail "$shape: real and simulated differ"
import json, sys
rows = json.load(open(sys.argv[1] + ".json"))["rows"]
ours = sorted((r for r in rows if "simulated_s" in r), key=lambda r: r["median_s"])
own = next(r for r in rows if r["algorithm"] == "mpi")
chosen = next(r for r in rows if r.get("auto"))
errors = [abs(r["simulated_s"] / r["median_s"] - 1) for r in ours]
pairs = [(a, b) for i, a in enumerate(ours) for b in ours[:i] if abs(a["simulated_s"] / b["simulated_s"] - 1) > 0.02]
right = sum((a["median_s"] - b["median_s"]) * (a["simulated_s"] - b["simulated_s"]) > 0 for a, b in pairs)
for r in [own] + ours:
    print(f"{sys.argv[1]:6s} {r['algorithm']:12s} real {1e3 * r['median_s']:7.0f} ms   simulated "
          f"{1e3 * r.get('simulated_s', float('nan')):7.0f} ms{'   auto' if r.get('auto') else ''}")
print(f"{sys.argv[1]}: mean error {100 * sum(errors) / len(errors):.1f} %, {right} of {len(pairs)} pairs in order, auto takes "
      f"{chosen['algorithm']}: {chosen['median_s'] / ours[0]['median_s']:.2f} x the best, "
      f"{chosen['median_s'] / own['median_s']:.2f} x Open MPI's own", flush=True)
assert all(r["wrong"] == 0 for r in rows)
assert sum(errors) / len(errors) < 0.3 and right > 0.8 * len(pairs)
assert chosen["median_s"] < 1.25 * ours[0]["median_s"] and chosen["median_s"] < 1.15 * own["median_s"]
PYTHON
done
finish
