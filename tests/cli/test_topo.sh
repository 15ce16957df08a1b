#!/usr/bin/env bash
# topo: every built-in topology is listed and shown, exports are well formed, mistakes are one line.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

expect 0 topo list
for name in ring torus hypercube fc2 fat-tree xgft abci-v tsubame3 dragonfly dln dln2d kautz hybrid; do
    has out "$name"
done

# show NAME OPTION...: as a table, JSON, Graphviz and SimGrid platform.
show() {
    expect 0 topo show "$@"
    has out "bisection"
    has out "cable length"
    has out "cost"
    expect 0 topo show "$@" --json
    python3 - <<'PY' || fail "topo show $* --json"
import json
t = json.load(open("out"))
for key in "topology hosts vertices switches links cables degree diameter average_hops bisection_bytes_per_s cable_m cost".split():
    assert key in t, key
assert t["links"] == sum(k["links"] for k in t["link_kinds"])
PY
    expect 0 topo show "$@" --format dot
    has out "digraph"
    expect 0 topo show "$@" --format simgrid
    python3 -c 'import xml.dom.minidom as m; assert m.parse("out").getElementsByTagName("route")' ||
        fail "topo show $* --format simgrid"
}
show ring --hosts 12
show torus --dims 4x3x2
show hypercube --hosts 32 --hosts-per-switch 2
show fc2 --dims 4x3
show fat-tree --hosts 64 --leaf-hosts 16 --uplinks 5
show xgft --children 4,4,2 --parents 1,2,2 --cables 1,1,2
show abci-v --hosts 40
show tsubame3 --hosts 64 --duplex full
show dragonfly --shape 2,4,1,5
show dln --hosts 64 --hosts-per-switch 8
show dln --hosts 20 --strides 1,5
show dln2d --dims 4x8 --hosts-per-switch 2
show kautz --degree 4 --diameter 2
show hybrid --hosts 64 --optical-ports 2 --reconfigure 1ms --optical-bandwidth 50GB/s

# Values that the literature gives.
expect 0 topo show kautz --degree 16 --diameter 2 --json
python3 - <<'PY' || fail "K(16,2)"
import json
t = json.load(open("out"))
assert t["hosts"] == 272 and t["links"] == 4352 and t["diameter"] == 2 and abs(t["average_hops"] - 1.941) < 1e-3
PY
expect 0 topo show dln --hosts 64 --json
python3 - <<'PY' || fail "the full DLN of 64"
import json
t = json.load(open("out"))
assert t["degree"] == 11 and t["diameter"] == 3 and abs(t["average_hops"] - 2.14) < 0.05 and t["cables"] == 64 * 5 + 32
PY

# Units and options reach the links.
expect 0 topo show ring --hosts 8 --hosts-per-switch 1 --link-bandwidth 100Gb/s --link-latency 500ns \
    --host-link-bandwidth 25GB/s --host-link-latency 0 --json
python3 - <<'PY' || fail "bandwidths and latencies"
import json
kinds = {k["kind"]: k for k in json.load(open("out"))["link_kinds"]}
assert kinds["switch"]["most_bytes_per_s"] == 12.5e9 and abs(kinds["switch"]["most_latency_s"] - 5e-7) < 1e-15
assert kinds["host"]["most_bytes_per_s"] == 25e9 and kinds["host"]["most_latency_s"] == 0
PY

# A graph of one's own, and one that falls apart.
printf 'paradl: topology/1\nname: pair\nhosts: 2\nswitches: 1\nlinks:\n  - {ends: [h0, s0]}\n  - {ends: [h1, s0]}\n' >pair.yaml
printf 'paradl: topology/1\nname: apart\nhosts: 4\nlinks:\n  - {ends: [h0, h1]}\n  - {ends: [h2, h3]}\n' >apart.yaml
show ./pair.yaml
expect 0 topo show pair.yaml --hosts 2

# refuse TEXT ARGUMENT...: status 2, one line, no output.
refuse() {
    local text=$1
    shift
    expect 2 "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail "paradl $*: $(wc -l <err) lines of messages: $(cat err)"
    [ ! -s out ] || fail "paradl $*: output beside an error: $(head -c 200 out)"
    has err "$text"
}
refuse "apart falls apart" topo show apart.yaml
refuse "pair.yaml has 2 hosts, not 3" topo show pair.yaml --hosts 3
refuse "nonsense" topo show nonsense --hosts 8
refuse "dragonfly" topo show dragonfly --shape 1,16,1,18
refuse "--shape: expected four numbers" topo show dragonfly --shape 1,16
refuse "--dims: expected whole numbers" topo show torus --dims 4x
refuse "--dims: expected whole numbers" topo show torus --dims 4xfour
refuse "--dims: at most 6" topo show torus --dims 2x2x2x2x2x2x2
refuse "hypercube" topo show hypercube --hosts 12
refuse "not a multiple" topo show ring --hosts 12 --hosts-per-switch 5
refuse "needs a number of hosts" topo show dln
refuse "one number per level" topo show xgft --children 4,4 --parents 1
refuse "--host-link-latency" topo show ring --hosts 4 --host-link-latency soon
refuse "bandwidth" topo show ring --hosts 4 --link-bandwidth 0
refuse "--duplex: expected" topo show ring --hosts 4 --duplex simplex
refuse "exclude each other" topo show ring --hosts 4 --json --format dot
refuse "unknown option --host" topo show ring --host 4
refuse "an argument is missing" topo show
refuse "did you mean show?" topo sho
# Nodes of a torus pay for the ports of their routers as switches do: 4 nodes in a ring have 8, and 4 cables.
expect 0 topo show ring --hosts 4 --json
python3 - <<'PY' || fail "the cost of a ring"
import json
t = json.load(open("out"))
assert t["cost_unit"] == "USD" and t["cost"] > 8 * 250, t["cost"]
PY
finish
