#!/usr/bin/env bash
# simulate: golden values through the command, JSON, ranking, sweeps, drawings, refinements, mistakes.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

dln=(simulate --topology dln --hosts 64 --hosts-per-switch 8 --bytes 64MiB)

# The fields that programs rely on, and a golden value.
expect 0 "${dln[@]}" --algorithm ring --json
check 'abs(d["time_s"] / 0.010948 - 1) < 1e-3'
check 'all(k in d for k in "topology hosts collective algorithm bytes engine time_s flows steps bound_s busiest_link wall_s max_rss_bytes".split())'
check 'set(d["busiest_link"]) == {"from", "to", "bytes"} and d["hosts"] == 64 and d["bytes"] == 64 << 20'
check 'd["flows"] == 64 * 126 and d["steps"] == 126 and d["bound_s"] <= d["time_s"]'
expect 0 "${dln[@]}" --algorithm hd_near --json
check 'abs(d["time_s"] / 0.018820 - 1) < 1e-3 and d["limited_by"] == "contention"'
expect 0 "${dln[@]}" --algorithm ring --engine loads --json
check 'abs(d["time_s"] / 0.010948 - 1) < 1e-3 and d["engine"] == "loads"'
expect 0 "${dln[@]}" --algorithm ring --every-step --json
check 'abs(d["time_s"] / 0.010948 - 1) < 1e-3'
if "$PARADL" "${dln[@]}" --algorithm hd_near --engine simgrid --json >out 2>err; then
    check 'abs(d["time_s"] / 0.018820 - 1) < 5e-3'
else
    has err "libsimgrid-dev"
fi
expect 0 "${dln[@]}" --algorithm ring
has out "10.9 ms"
has out "lower bound"
has out "busiest link"

# Two runs print the same.
cp out first
expect 0 "${dln[@]}" --algorithm ring
cmp -s first out || fail "two runs of the same case differ"

# The ranking is sorted, gives reasons, and keeps what is not possible visible.
expect 0 "${dln[@]}" --algorithm all --json
check '[c["time_s"] for c in d["candidates"] if c["possible"]] == sorted(c["time_s"] for c in d["candidates"] if c["possible"])'
check 'd["best"] == d["candidates"][0]["algorithm"] and d["candidates"][0]["rank"] == 1'
check 'all(c["limited_by"] in ("latency", "bandwidth", "contention") and c["bound_ratio"] > 0.99 for c in d["candidates"] if c["possible"])'
check 'all(c["reason"] and c["rank"] is None for c in d["candidates"] if not c["possible"])'
expect 0 "${dln[@]}"
has out "x bound"
has out "best: "
has out "not possible: "
expect 0 "${dln[@]}" --algorithm ring,rshd
[ "$(grep -c ' ms ' out)" -ge 2 ] || fail "a ranking of two"
expect 0 "${dln[@]}" --algorithm levels:ring/8,hd_far/8 --json
check 'd["algorithm"] == "levels:ring/8,hd_far/8"'

# Every collective, and the algorithms made for a topology.
for collective in allreduce reduce-scatter allgather broadcast alltoall; do
    expect 0 simulate --topology torus --dims 4x4 --collective $collective --bytes 1MiB --json
    check 'd["candidates"][0]["possible"]'
done
expect 0 simulate --topology fc2 --dims 8x8 --collective alltoall --algorithm fc2 --bytes 64MiB --json
check 'd["bound_s"] / d["time_s"] > 0.99'
expect 0 simulate --topology fc2 --dims 4x3 --collective alltoall --algorithm fc2 --bytes 12MiB --json
expect 0 simulate --topology dln2d --dims 4x8 --hosts-per-switch 4 --algorithm shd2d --bytes 1MiB --json
expect 0 simulate --topology kautz --degree 4 --diameter 2 --algorithm kautz --bytes 20MiB --json
check 'd["steps"] == 4'
expect 0 simulate --topology dragonfly --shape 1,4,1,5 --algorithm ring --bytes 1MiB --valiant --json
expect 0 simulate --topology abci-v --hosts 16 --bytes 128MiB --density 0.0078125 --json
check 'd["best"] == "sparse_ring_ring"'
# Two ranks that keep 2 and 1 of 8 elements, one of which both have: parts of 4 elements go to their owners, sums come back.
sets=(simulate --topology ring --hosts 2 --algorithm sparse_ring --links --json)
printf 'elements 8\n1 6\n6\n' >sets.txt
expect 0 "${sets[@]}" --bytes 32 --index-sets sets.txt
check 'sum(link["bytes"] for link in d["links"] if link["from"] == "h0") == (4 + 8) + (4 + 8)'
check 'sum(link["bytes"] for link in d["links"] if link["from"] == "h1") == 4 + (4 + 8)'
expect 0 "${sets[@]}" --bytes 64 --index-sets sets.txt

# Circuits are switched once and their time is part of the result.
expect 0 simulate --topology hybrid --hosts 32 --algorithm ring --bytes 256MiB --optical-bandwidth 50GB/s --json
check 'd["circuits"] == 32 and abs(d["parts"]["waiting_s"] - 0.01) < 1e-12 and d["time_s"] > 0.01'
expect 0 simulate --topology hybrid --hosts 32 --algorithm ring --bytes 1MiB --json
check 'd["circuits"] == 0 and d["time_s"] < 0.01'

# Refinements change the time the way they should.
expect 0 "${dln[@]}" --algorithm ring --gamma 0.1ns --json
check 'd["time_s"] > 0.0115 and d["parts"]["reduction_s"] > 0.006'
expect 0 "${dln[@]}" --algorithm ring --latency-factors 0:1,64KiB:10 --bandwidth-factors 0:0.5 --json
check 'd["time_s"] > 0.021'
expect 0 "${dln[@]}" --algorithm ring --stragglers 3:2ms,9:20ms --json
check 'd["time_s"] > 0.02 and d["limited_by"] == "waiting"'
expect 0 "${dln[@]}" --algorithm ring --fail-link s0-s1 --json
check 'd["slow_down"] >= 1 and d["intact_s"] > 0'
expect 0 "${dln[@]}" --algorithm hd_near --fail-link random:12 --json
check 'd["slow_down"] > 1 and d["intact_s"] > 0'
tree=(simulate --topology fat-tree --hosts 16 --leaf-hosts 4 --uplinks 4 --bytes 1MiB --algorithm hd_far)
expect 0 "${tree[@]}" --fail-switch random:2:7 --json
check 'd["slow_down"] > 1'

# Several networks in one table and one drawing, with what they cost and draw.
networks=(simulate --topology fat-tree:leaf-hosts=4:uplinks=2 --topology torus:dims=4x4 --hosts 16)
expect 0 "${networks[@]}" --algorithm ring,multiport --bytes 1MiB --room switch-power=100W --json
check 'd["paradl"] == "networks/1" and [n["topology"] for n in d["points"][0]["networks"]] == ["fat-tree", "torus"]'
check 'd["points"][0]["networks"][1]["algorithm"] == "multiport"'
check 'all(abs(n["energy_j"] - n["power_w"] * n["time_s"]) < 1e-9 for n in d["points"][0]["networks"])'
expect 0 "${networks[@]}" --sweep-bytes 1KiB:1MiB:32 --plot networks.svg
has out "torus:dims=4x4, multiport"
has networks.svg "fat-tree:leaf-hosts=4:uplinks=2"
expect 0 "${dln[@]}" --algorithm ring --jobs 8 --placement stride --links --json
check 'd["jobs"] == 8 and len(d["job_s"]) == 8 and d["limited_by"] == "contention"'
check 'd["links"][0]["bytes"] == d["busiest_link"]["bytes"] and max(l["busy"] for l in d["links"]) <= 1.000001'
expect 0 simulate --topology tsubame3 --hosts 32 --algorithm ring_ring --bytes 32MiB --json
check '0 < d["energy_used_j"] <= d["energy_all_j"]'
expect 0 "${dln[@]}" --algorithm rshd --trace trace.json
python3 -c 'import json; assert len(json.load(open("trace.json"))["traceEvents"]) > 100' || fail "the trace"

# Sweeps: table, JSON and a drawing that is XML and refers to nothing outside.
expect 0 simulate --topology dln --hosts 16 --hosts-per-switch 2 --sweep-bytes 1KiB:16MiB:8 --plot bytes.svg
has out "best"
expect 0 simulate --topology dln --hosts-per-switch 2 --sweep-hosts 16:256:4 --bytes 1MiB --algorithm ring,rshd \
    --plot hosts.svg --json
check 'd["sweep"] == "hosts" and [p["hosts"] for p in d["points"]] == [16, 64, 256]'
check 'all(len(p["candidates"]) == 2 for p in d["points"])'
LC_ALL=C.UTF-8 expect 0 simulate --topology dln --hosts 16 --hosts-per-switch 2 --sweep-bytes 1KiB:16MiB:8 --algorithm ring,rshd --plot -
has out "● rshd"
has err "best"
python3 - <<'PY' || fail "hues on their ground"
import re
def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
rules = re.findall(r":root[^{]*\{([^}]*)\}", open("bytes.svg").read())
assert len(rules) == 4
for rule in rules:
    colours = dict(pair.split(":") for pair in rule.split(";"))
    grounds = {name: luminance(colours[name]) for name in ("--paper", "--tint")}
    for name, colour in colours.items():
        for ground, light in grounds.items():
            ratio = (max(light, luminance(colour)) + 0.05) / (min(light, luminance(colour)) + 0.05)
            assert name in grounds or name == "--grid" or ratio >= (4.5 if name == "--ink" else 3), (name, colour, ground, ratio)
PY
python3 - <<'PY' || fail "the drawings"
import xml.dom.minidom as m
for name in "bytes.svg", "hosts.svg":
    svg = m.parse(name)
    assert svg.documentElement.tagName == "svg"
    words = " ".join(t.firstChild.data for t in svg.getElementsByTagName("text") if t.firstChild)
    assert "lower bound" in words and "rshd" in words and "time" in words, words
    assert not [e for e in svg.getElementsByTagName("*") if e.hasAttribute("href") or e.hasAttribute("xlink:href")]
PY

# refuse TEXT ARGUMENT...: status 2, one line, no output.
refuse() {
    local text=$1
    shift
    expect 2 "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail "paradl $*: $(wc -l <err) lines of messages: $(cat err)"
    [ ! -s out ] || fail "paradl $*: output beside an error: $(head -c 200 out)"
    has err "$text"
}
printf 'paradl: topology/1\nname: apart\nhosts: 4\nlinks:\n  - {ends: [h0, h1]}\n  - {ends: [h2, h3]}\n' >apart.yaml
refuse "swing" simulate --topology ring --hosts 12 --algorithm swing --bytes 1MiB
refuse "kautz" "${dln[@]}" --algorithm kautz
refuse "--bytes: expected a size of at least one byte" simulate --topology ring --hosts 8 --algorithm ring --bytes 0
refuse "--bytes: expected a size of at least one byte" simulate --topology ring --hosts 8 --algorithm ring
refuse "--bytes: expected a size" simulate --topology ring --hosts 8 --bytes many
refuse "dragonfly" simulate --topology dragonfly --shape 1,16,1,18 --bytes 1MiB
refuse "rng" simulate --topology rng --hosts 8 --bytes 1MiB
refuse "apart falls apart" simulate --topology apart.yaml --bytes 1MiB
refuse "did you mean --bytes?" simulate --topology ring --hosts 8 --byte 1MiB
refuse "unknown allreduce algorithm rng" simulate --topology ring --hosts 8 --algorithm rng --bytes 1MiB
refuse "--collective: expected" simulate --topology ring --hosts 8 --collective gossip --bytes 1MiB
refuse "--engine: expected flow, loads or simgrid" simulate --topology ring --hosts 8 --engine fast --bytes 1MiB
refuse "--topology T is missing" simulate --hosts 8 --bytes 1MiB
refuse "exclude each other" "${dln[@]}" --sweep-bytes 1:8:2 --sweep-hosts 2:8:2
refuse "FROM:TO:FACTOR" "${dln[@]}" --sweep-bytes 1KiB:1MiB
refuse "factor above 1" "${dln[@]}" --sweep-hosts 8:64:1
refuse "--plot needs" "${dln[@]}" --plot x.svg
refuse "--plot writes SVG: give a name that ends in .svg, not x.png" "${dln[@]}" --sweep-bytes 1:8:2 --plot x.png
refuse "--hosts-per-switch: a fat-tree has no such option; it has --hosts, --leaf-hosts, --uplinks" \
    simulate --topology fat-tree --hosts 64 --hosts-per-switch 8 --bytes 1MiB
refuse "take 992 or 1024 hosts" simulate --topology fat-tree --hosts 1000 --bytes 1MiB
refuse "--segments: expected a number of at least 1, or auto" "${dln[@]}" --segments 0
refuse "4,8,4,33 (1,056)" simulate --topology dragonfly --hosts 1024 --bytes 1MiB
refuse "--trace is for one algorithm" "${dln[@]}" --trace x.json
refuse "cannot be shared by 7 groups" "${dln[@]}" --algorithm ring --jobs 7
refuse "no link between s0 and s3" "${dln[@]}" --algorithm ring --fail-link s0-s3
refuse "cut off" "${dln[@]}" --algorithm ring --fail-link h0-s0
refuse "after 0 failures" simulate --topology fat-tree --hosts 8 --leaf-hosts 4 --uplinks 1 --bytes 1MB --fail-link random:1
refuse "expected random:N" "${dln[@]}" --algorithm ring --fail-link random:x
refuse "after 3 failures" "${tree[@]}" --fail-switch random:4
refuse "s0: " "${tree[@]}" --fail-switch s0
refuse "a torus has no such option" simulate --topology torus:uplinks=2 --topology ring --bytes 1MiB --hosts 16
refuse "none of these networks" "${networks[@]}" --strides 1,2 --bytes 1MiB
refuse "expected OPTION=VALUE" simulate --topology ring:colour=red --bytes 1MiB
refuse 'has no "colour=red"' "${networks[@]}" --bytes 1KiB --algorithm ring --room colour=red
refuse "paradl topo show prices one" simulate --topology ring --hosts 4 --bytes 1MiB --room port-cost=1
refuse "no vertex" "${dln[@]}" --algorithm ring --fail-link s0-s99
refuse "--fail-link: expected A-B" "${dln[@]}" --algorithm ring --fail-link s0
refuse "--stragglers: expected" "${dln[@]}" --algorithm ring --stragglers 64:1ms
refuse "--latency-factors: expected" "${dln[@]}" --algorithm ring --latency-factors 1,2
refuse "shares of 1" "${dln[@]}" --density 2
refuse "random draws the share --density: give it" "${dln[@]}" --index-sets random
refuse "leave one of them out" "${dln[@]}" --index-sets sets.txt --density 0.1
refuse "sets of 2 ranks, and there are 64: use --hosts 2" "${dln[@]}" --index-sets sets.txt
refuse "is for one size" simulate --topology dln --hosts 64 --sweep-bytes 1KiB:1MiB:4 --index-sets sets.txt
bad_sets() { # TEXT CONTENT
    printf "$2" >bad.txt
    refuse "$1" simulate --topology ring --hosts 2 --bytes 32 --index-sets bad.txt
}
bad_sets 'bad.txt:1: expected "elements N"' '1 2\n3\n'
bad_sets 'bad.txt:1: expected "elements N"' 'elements 8\r'
bad_sets 'bad.txt:2: index 8: expected increasing ones from 0 to 7' 'elements 8\n1 8\n3\n'
bad_sets 'bad.txt:3: index 2: expected increasing' 'elements 8\n1\n3 2\n'
bad_sets 'bad.txt:2: "x' 'elements 8\nx\n'
# Algorithms that take the same time are called so, the simplest first; JSON says which were asked for, the segments of each,
# and null for unknown energy. Parts never sum to more than the time, nor is a bound passed.
expect 0 simulate --topology ring --hosts 16 --bytes 64MiB
has out "best: double_ring, "
tied=$(sed -nE 's/^ *[0-9]+ +(ring|ring_ring|leader) .*/\1/p' out | tr '\n' ' ')
[ "$tied" = "ring ring_ring leader " ] || fail "ties are not ordered by simplicity: $tied"
expect 0 simulate --topology ring --hosts 16 --bytes 64MiB --algorithm ring,ring_ring,leader
has out "best: ring, "
has out "As fast: ring_ring, leader."
expect 0 simulate --topology ring --hosts 16 --bytes 1KiB --algorithm double_tree,recmul,tree --json
python3 - <<'PY' || fail "simulate --json with three algorithms"
import json
s = json.load(open("out"))
assert s["algorithm"] == "double_tree,recmul,tree", s["algorithm"]
for c in s["candidates"]:
    assert c["segments"] >= 1, c
    assert c["energy_used_j"] is None and c["energy_all_j"] is None
    assert sum(c["parts"].values()) <= c["time_s"] * (1 + 1e-9), c
    assert c["bound_ratio"] >= 1, c
PY

# Of very many uneven blocks the mean is taken, and said.
expect 0 simulate --topology fat-tree --hosts 2080 --algorithm ring --bytes 10000001
has out "Blocks of ring differ by an element; all had their mean size."

# A signal leaves no temporary file behind.
"$PARADL" simulate --topology dragonfly --shape 4,8,4,33 --bytes 64MiB --algorithm kautz --trace gone.json >out 2>err &
started=$!
for _ in $(seq 200); do
    [ -z "$(find . -name 'gone.json.*')" ] || break
    sleep 0.05
done
kill -TERM "$started"
wait "$started" || true
[ -z "$(find . -name 'gone.json*')" ] || fail "SIGTERM left $(find . -name 'gone.json*')"

[ ! -e x.svg ] && [ ! -e x.json ] || fail "a failed run left a file"
finish
