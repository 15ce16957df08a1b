#!/usr/bin/env bash
# Real networks of 8 hosts out of namespaces and shaped cables (network.py): each is measured by paradl calibrate --network, then every
# allreduce runs on it beside its simulation. Checked are results, the mean error, the order of pairs and the choice of auto, all
# generously: processes share the cores of one machine with whatever else runs there. Minutes; needs root.
#
#     SHAPES="tree dln" tests/long/test_network.sh        # some of tree, ring, torus, dln
set -euo pipefail
. "$SOURCE/tests/comm/common.sh"

[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
for tool in ip tc mpirun unshare; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
ip netns add pdls999 2>/dev/null || { echo "skipped: network namespaces are not allowed here"; exit 77; }
ip netns del pdls999
network=$SOURCE/tests/long/network.py
trap 'python3 "$network" down' EXIT

# Ranks that poll would take the cores from those that move bytes: they sleep a little.
printf '#include <time.h>\nint sched_yield(void) { struct timespec t = {0, 30000}; return nanosleep(&t, 0); }\n' >yield.c
"${CC:-cc}" -shared -fPIC -O2 -o yield.so yield.c
# Open MPI starts its daemons through this: the host of an address is its namespace, with a host name of its own.
cat >agent.sh <<'AGENT'
#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=pdlh$((${1##*.} - 1)); shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"
AGENT
chmod +x agent.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts=$(printf '10.77.0.%d:1,' 1 2 3 4 5 6 7 8)

on_hosts() {
    # shellcheck disable=SC2016
    ip netns exec pdlh0 unshare --uts sh -c 'hostname pdlh0; exec "$0" "$@"' timeout 900 mpirun \
        --mca plm rsh --mca plm_rsh_agent "$PWD/agent.sh" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 \
        --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca pml ob1 --mca mpi_yield_when_idle 1 \
        --mca hwloc_base_binding_policy none -H "${hosts%,}" -n 8 -x LD_PRELOAD="$PWD/yield.so" -x PARADL_SHARE \
        -x PARADL_LIB "$PARADL" "$@"
}

export PARADL_LIB=${PARADL_LIB:-$(dirname "$PARADL")/lib/paradl}
for shape in ${SHAPES:-tree ring torus dln}; do
    case $shape in # topology, then Mbit/s of hosts and of cables between switches
    tree) options='topology: fat-tree\nhosts: 8\nleaf_hosts: 4\nuplinks: 1' rates="20 26.667" ;;
    ring) options='topology: ring\nhosts: 8' rates="20 20" ;;
    torus) options='topology: torus\ndims: [4, 2]' rates="20 20" ;;
    dln) options='topology: dln\nhosts: 8\nhosts_per_switch: 2' rates="20 20" ;;
    *) fail "unknown shape $shape" ;;
    esac
    # shellcheck disable=SC2059
    printf "paradl: topology/1\n$options\n" >"$shape.yaml"
    # shellcheck disable=SC2086
    python3 "$network" up "$PARADL" "$shape.yaml" $rates
    on_hosts calibrate --network "$PWD/$shape.yaml" -o "$PWD/$shape-measured.yaml" --quiet 2>err || fail "$shape: calibrate: $(tail -3 err)"
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
